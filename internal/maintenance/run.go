package maintenance

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"
)

// RunID names one execution of the due jobs of the chain on one table: 26 lower-case base32 characters, 130 bits. It is the execution's name,
// the prefix of plans and results, part of every output file's name, a key in the snapshot summary and a log field.
type RunID string

// NewRunID derives an ID from a table's UUID, a head snapshot and a lease's token alone: the same three give the same ID. Tokens are only unique
// within one state store, so what takes a lease uses UniqueRunID.
func NewRunID(tableUUID string, headSnapshotID int64, token int64) RunID {
	return UniqueRunID(tableUUID, headSnapshotID, token, "")
}

// UniqueRunID derives a run's ID from the table's UUID, the head snapshot at the start, the lease's token and a nonce of at least 128 random bits.
// Two state stores (two laptops, two containers with an empty home, a copied state file) hand out the same tokens; without the nonce their runs
// on one head had one ID, and each swept the other's outputs as its own. The lease keeps the ID, so that a repeated start meets the same execution.
func UniqueRunID(tableUUID string, headSnapshotID, token int64, nonce string) RunID {
	text := tableUUID + "/" + strconv.FormatInt(headSnapshotID, 10) + "/" + strconv.FormatInt(token, 10)
	if nonce != "" {
		text += "/" + nonce
	}
	return hashedRunID(text)
}

func hashedRunID(of string) RunID {
	sum := sha256.Sum256([]byte(of))
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:17])
	return RunID(strings.ToLower(text[:26]))
}

// Validate reports an ID that cannot be an execution name or an object key's part.
func (r RunID) Validate() error {
	if len(r) != 26 {
		return fmt.Errorf("run ID %q has %d characters: want 26", string(r), len(r))
	}
	if strings.Trim(string(r), "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return fmt.Errorf("run ID %q holds characters outside a-z and 2-7", string(r))
	}
	return nil
}

// CommitID names one commit: run, job and batch. It is written to the snapshot's summary and settles whether an attempt landed.
type CommitID string

// NewCommitID joins run, job and batch.
func NewCommitID(run RunID, job Job, batch int) CommitID {
	return CommitID(fmt.Sprintf("%s/%s/%d", run, job, batch))
}
