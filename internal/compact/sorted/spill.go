package sorted

import (
	"fmt"
	"os"

	"firn/internal/compact/engine"
)

// Spill says where rows go that do not fit in memory.
type Spill struct {
	// Dir is the folder of spill files, "" the system's folder for temporary files.
	Dir string
	// LimitBytes bounds what one group may spill; 0 means no limit but the disk's.
	LimitBytes int64
}

// blockBytes is the unit of spilled memory.
const blockBytes = 1 << 20

// extent is a range of the spill.
type extent struct{ at, length int64 }

// spill is an append-only store of bytes: in memory at first, in a file behind that. The file has no name as soon as it is open, so that nothing
// is left of it however the process ends.
type spill struct {
	Spill
	memoryBytes int64
	blocks      [][]byte
	file        *os.File
	size        int64
}

// write appends p.
func (s *spill) write(p []byte) error {
	if s.LimitBytes > 0 && s.size+int64(len(p)) > s.LimitBytes {
		return fmt.Errorf("sort the group: it needs more than the %d bytes that may be spilled: lower max-file-group-size-bytes, or raise the limit: %w",
			s.LimitBytes, engine.ErrRefused)
	}
	for len(p) > 0 && s.size < s.memoryBytes {
		b := int(s.size / blockBytes)
		if b == len(s.blocks) {
			s.blocks = append(s.blocks, nil)
		}
		at := int(s.size % blockBytes)
		n := min(blockBytes-at, len(p))
		s.blocks[b] = append(s.block(b)[:at], p[:n]...)
		p = p[n:]
		s.size += int64(n)
	}
	if len(p) == 0 {
		return nil
	}
	if err := s.open(); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(p, s.size-s.memoryBytes); err != nil {
		return fmt.Errorf("spill rows: %w", err)
	}
	s.size += int64(len(p))
	return nil
}

// block is a block to append to. The first one grows, for a group that is small; those behind it are made whole.
func (s *spill) block(b int) []byte {
	if b > 0 && s.blocks[b] == nil {
		s.blocks[b] = make([]byte, 0, blockBytes)
	}
	return s.blocks[b]
}

func (s *spill) open() error {
	if s.file != nil {
		return nil
	}
	f, err := os.CreateTemp(s.Dir, "firn-sort-*.spill")
	if err != nil {
		return fmt.Errorf("create a spill file: %w", err)
	}
	s.file = f
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("unlink spill file %s: %w", f.Name(), err)
	}
	return nil
}

// readAt fills p from an offset.
func (s *spill) readAt(p []byte, at int64) error {
	for len(p) > 0 && at < s.memoryBytes {
		n := copy(p, s.blocks[at/blockBytes][at%blockBytes:])
		p = p[n:]
		at += int64(n)
	}
	if len(p) == 0 {
		return nil
	}
	if _, err := s.file.ReadAt(p, at-s.memoryBytes); err != nil {
		return fmt.Errorf("read spilled rows: %w", err)
	}
	return nil
}

// truncate drops what lies behind an offset; the memory is used again.
func (s *spill) truncate(at int64) { s.size = at }

func (s *spill) close() {
	if s.file != nil {
		_ = s.file.Close() // It has no name: nothing can be left of it.
		s.file = nil
	}
	s.blocks = nil
}
