package edge

import (
	"runtime/debug"
	"strconv"
)

const (
	// envMemoryMB is the function's memory as Lambda tells it; envMemoryLimit is Go's own setting, which wins.
	envMemoryMB    = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"
	envMemoryLimit = "GOMEMLIMIT"
	// memoryShare is the part of the function's memory, in percent, that Go is to keep within: the rest is for what Go does not count. The
	// collector's own pace stays at GOGC 100: a lower one costs a tenth of the throughput, and none at all fills the memory to its limit.
	memoryShare = 85
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

// limitMemory sets the soft limit of this process.
func limitMemory(env map[string]string) {
	if limit, ok := MemoryLimit(env); ok {
		debug.SetMemoryLimit(limit)
	}
}
