package maintenance

import "fmt"

// Job is a maintenance job, spelled as the procedure of that name: Spark's five, and one of Firn's own.
type Job string

// The five jobs.
const (
	RewriteDataFiles           Job = "rewrite_data_files"
	RewritePositionDeleteFiles Job = "rewrite_position_delete_files"
	RewriteManifests           Job = "rewrite_manifests"
	ExpireSnapshots            Job = "expire_snapshots"
	RemoveOrphanFiles          Job = "remove_orphan_files"
)

// RewriteEqualityDeleteFiles is Firn's own job: it turns equality deletes into position deletes or deletion vectors. It runs when it is called.
const RewriteEqualityDeleteFiles Job = "rewrite_equality_delete_files"

// Chain returns the five jobs in the fixed order in which a run executes those that are due.
func Chain() []Job {
	return []Job{RewriteDataFiles, RewritePositionDeleteFiles, RewriteManifests, ExpireSnapshots, RemoveOrphanFiles}
}

// Jobs returns all jobs: the chain, then those that only run when they are called.
func Jobs() []Job { return append(Chain(), RewriteEqualityDeleteFiles) }

// ParseJob reads a job's name.
func ParseJob(name string) (Job, error) {
	for _, j := range Jobs() {
		if string(j) == name {
			return j, nil
		}
	}
	return "", fmt.Errorf("unknown job %q: want one of %v", name, Jobs())
}

// Rewrites reports whether the job replaces files by new ones of the same content, and so ends in a replace snapshot.
func (j Job) Rewrites() bool {
	return j == RewriteDataFiles || j == RewritePositionDeleteFiles || j == RewriteEqualityDeleteFiles || j == RewriteManifests
}

// Outcome is how a job or a run ended. It is printed to users; spelling is part of the interface.
type Outcome string

// The outcomes. Unknown is the one in which nothing may be deleted.
const (
	Committed   Outcome = "committed"
	NothingToDo Outcome = "nothing_to_do"
	Conflict    Outcome = "conflict"
	Refused     Outcome = "refused"
	Unknown     Outcome = "unknown"
	Failed      Outcome = "failed"
	DryRun      Outcome = "dry_run"
)
