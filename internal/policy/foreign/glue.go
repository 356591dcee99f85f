package foreign

import (
	"encoding/json"
	"fmt"
	"strconv"

	"firn/internal/maintenance"
)

// glueAnswer is the answer of GetTableOptimizer and of BatchGetTableOptimizer, which spells its members in lower case.
type glueAnswer struct {
	DatabaseName, TableName string
	TableOptimizer          *glueOptimizer
	TableOptimizers         []struct {
		DatabaseName   string        `json:"databaseName"`
		TableName      string        `json:"tableName"`
		TableOptimizer glueOptimizer `json:"tableOptimizer"`
	}
	Failures []struct {
		TableName string `json:"tableName"`
		Type      string `json:"type"`
		Error     struct{ ErrorMessage string }
	}
}

type glueOptimizer struct {
	Type          string
	Configuration struct {
		Enabled                 *bool
		CompactionConfiguration struct {
			IcebergConfiguration struct {
				Strategy                           string
				MinInputFiles, DeleteFileThreshold *int64
			}
		}
		RetentionConfiguration struct {
			IcebergConfiguration struct {
				SnapshotRetentionPeriodInDays, NumberOfSnapshotsToRetain, RunRateInHours *int64
				CleanExpiredFiles                                                        *bool
			}
		}
		OrphanFileDeletionConfiguration struct {
			IcebergConfiguration struct {
				OrphanFileRetentionPeriodInDays, RunRateInHours *int64
				Location                                        string
			}
		}
	}
	ConfigurationSource string
}

// glue reads optimizers. Fields that are left out have Glue's defaults.
func glue(document []byte, match string) ([]Layer, error) {
	var a glueAnswer
	if err := json.Unmarshal(document, &a); err != nil {
		return nil, fmt.Errorf("read Glue's answer: %w: %w", ErrForeign, err)
	}
	if len(a.Failures) > 0 {
		f := a.Failures[0]
		return nil, fmt.Errorf("read Glue's answer with %d failures, the first for optimizer %s of %s: %s: %w", len(a.Failures), f.Type, f.TableName, f.Error.ErrorMessage, ErrForeign)
	}
	var layers []Layer
	add := func(database, table string, o glueOptimizer) error {
		l := Layer{Match: match, Values: map[string]string{}, From: fmt.Sprintf("Glue's %s optimizer", o.Type)}
		if database != "" && table != "" {
			l.From += " of " + database + "." + table
			if l.Match == "" {
				l.Match = database + "." + table
			}
		}
		if o.ConfigurationSource == "catalog" {
			l.From += ", set for the catalog"
		}
		enabled := o.Configuration.Enabled != nil && *o.Configuration.Enabled
		switch o.Type {
		case "compaction":
			l.job(maintenance.RewriteDataFiles, enabled)
			l.compaction(o)
		case "retention":
			l.job(maintenance.ExpireSnapshots, enabled)
			l.retention(o)
		case "orphan_file_deletion":
			l.job(maintenance.RemoveOrphanFiles, enabled)
			l.orphans(o)
		default:
			return fmt.Errorf("read Glue's optimizer of type %q: want compaction, retention or orphan_file_deletion: %w", o.Type, ErrForeign)
		}
		layers = append(layers, l)
		return nil
	}
	if a.TableOptimizer != nil {
		if err := add(a.DatabaseName, a.TableName, *a.TableOptimizer); err != nil {
			return nil, err
		}
	}
	for _, t := range a.TableOptimizers {
		if err := add(t.DatabaseName, t.TableName, t.TableOptimizer); err != nil {
			return nil, err
		}
	}
	return layers, nil
}

func or(n *int64, fallback int64) string {
	if n == nil {
		return strconv.FormatInt(fallback, 10)
	}
	return strconv.FormatInt(*n, 10)
}

// compaction: a partition with so many files under 75 % of the target is compacted, or a file with so many delete files.
func (l *Layer) compaction(o glueOptimizer) {
	c := o.Configuration.CompactionConfiguration.IcebergConfiguration
	const job = string(maintenance.RewriteDataFiles)
	files := or(c.MinInputFiles, 100)
	l.set(job+".trigger.small-files", files)
	l.set(job+".min-input-files", files)
	l.set(job+".trigger.small-files-aged", "0")
	l.set(job+".trigger.delete-files", or(c.DeleteFileThreshold, 1))
	l.strategy(c.Strategy)
}

// retention: what is left out is the table's own property, or Iceberg's default, here as there.
func (l *Layer) retention(o glueOptimizer) {
	c := o.Configuration.RetentionConfiguration.IcebergConfiguration
	const job = string(maintenance.ExpireSnapshots)
	if c.SnapshotRetentionPeriodInDays != nil {
		l.set(job+".older-than", days(*c.SnapshotRetentionPeriodInDays))
	}
	if c.NumberOfSnapshotsToRetain != nil {
		l.set(job+".retain-last", or(c.NumberOfSnapshotsToRetain, 1))
	}
	l.set(job+".trigger.interval", or(c.RunRateInHours, 24)+"h")
	if c.CleanExpiredFiles == nil || !*c.CleanExpiredFiles {
		l.note("cleanExpiredFiles is off in Glue: its expiry leaves the files to the orphan search; Firn's deletes the files that only expired snapshots reached")
	}
}

func (l *Layer) orphans(o glueOptimizer) {
	c := o.Configuration.OrphanFileDeletionConfiguration.IcebergConfiguration
	const job = string(maintenance.RemoveOrphanFiles)
	l.set(job+".older-than", or(c.OrphanFileRetentionPeriodInDays, 3)+"d")
	l.set(job+".trigger.interval", or(c.RunRateInHours, 24)+"h")
	if c.Location != "" {
		l.note("location %s was not imported: an automatic search looks under the table's own location", c.Location)
	}
}
