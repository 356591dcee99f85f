package runtimeapi

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// checkEnv reports variables that Lambda refuses.
func checkEnv(env map[string]string) []string {
	var problems []string
	size := 0
	for _, name := range slices.Sorted(maps.Keys(env)) {
		size += len(name) + len(env[name])
		if reserved(name) {
			problems = append(problems, fmt.Sprintf("variable %s is reserved", name))
		}
		if name == "" || strings.ContainsFunc(name, notVariableRune) || (name[0] >= '0' && name[0] <= '9') {
			problems = append(problems, fmt.Sprintf("variable %q has no valid name", name))
		}
		if strings.Contains(env[name], "\x00") {
			problems = append(problems, fmt.Sprintf("variable %s holds a zero byte", name))
		}
	}
	if size > MaxEnvironmentBytes {
		problems = append(problems, fmt.Sprintf("variables have %d bytes, at most %d are allowed", size, MaxEnvironmentBytes))
	}
	return problems
}

func notVariableRune(c rune) bool { return c == '-' || notNameRune(c) }

// reserved names variables that a function cannot set.
func reserved(name string) bool {
	switch name {
	case "_HANDLER", "_X_AMZN_TRACE_ID", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_EXECUTION_ENV", "AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID",
		"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR":
		return true
	default:
		return strings.HasPrefix(name, "AWS_LAMBDA_")
	}
}

// environment is what a process sees: Lambda's variables, the function's, the host's.
func (b *sandbox) environment(address, root, temp string) []string {
	f, o := b.pool.function, b.server.options
	key := f.AccessKeyID
	if key == "" {
		key = "local-" + f.Name
	}
	env := map[string]string{
		"AWS_LAMBDA_RUNTIME_API":          address,
		"AWS_LAMBDA_FUNCTION_NAME":        f.Name,
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": strconv.Itoa(f.MemoryMB),
		"AWS_LAMBDA_FUNCTION_VERSION":     "$LATEST",
		"AWS_LAMBDA_LOG_GROUP_NAME":       "/aws/lambda/" + f.Name,
		"AWS_LAMBDA_LOG_STREAM_NAME":      fmt.Sprintf("local/[$LATEST]%d", b.number),
		"AWS_LAMBDA_INITIALIZATION_TYPE":  "on-demand",
		"AWS_EXECUTION_ENV":               "AWS_Lambda_provided.al2023",
		"AWS_REGION":                      o.Region,
		"AWS_DEFAULT_REGION":              o.Region,
		"AWS_ACCESS_KEY_ID":               key,
		"AWS_SECRET_ACCESS_KEY":           "local",
		"AWS_SESSION_TOKEN":               "local",
		"_HANDLER":                        "bootstrap",
		"LAMBDA_TASK_ROOT":                root,
		"LAMBDA_RUNTIME_DIR":              "/var/runtime",
		"PATH":                            "/usr/local/bin:/usr/bin:/bin:/opt/bin",
		"LANG":                            "en_US.UTF-8",
		"TZ":                              ":UTC",
		"TMPDIR":                          temp,
	}
	maps.Copy(env, f.Env)
	maps.Copy(env, o.Env)
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}
