package edge

import (
	"runtime/debug"
	"strconv"
)

const (
	// envMemoryMB is the function's memory as Lambda tells it; envMemoryLimit and envPace are Go's own settings, which win.
	envMemoryMB    = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"
	envMemoryLimit = "GOMEMLIMIT"
	envPace        = "GOGC"
	// memoryShare is the part of the function's memory, in percent, that Go is to keep within: the rest is for what Go does not count.
	memoryShare = 85
	// pace is by how much the heap may grow, in percent, before the collector runs again. 80 instead of Go's 100 takes 10 to 20 MB off a rewrite
	// and no processor time that could be measured; 60 takes as much again, and a few percent of time.
	pace = 80
)

// MemoryLimit works out the soft limit for the heap in bytes; ok is false when nothing tells the function's memory, or GOMEMLIMIT is set.
func MemoryLimit(env map[string]string) (limit int64, ok bool) {
	if env[envMemoryLimit] != "" {
		return 0, false
	}
	mb, err := strconv.ParseInt(env[envMemoryMB], 10, 32)
	if err != nil || mb <= 0 {
		return 0, false
	}
	return mb << 20 / 100 * memoryShare, true
}

// BoundMemory sets the collector's pace and, where the function's memory is known, the soft limit of this process's heap. Settings of Go's own in
// the environment win.
func BoundMemory(env map[string]string) {
	if env[envPace] == "" {
		debug.SetGCPercent(pace)
	}
	if limit, ok := MemoryLimit(env); ok {
		debug.SetMemoryLimit(limit)
	}
}
