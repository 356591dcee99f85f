#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time. Inputs of new coverage are hardly made smaller, which costs
# most of the time otherwise. With FUZZ_DONE a target that found nothing is noted in that file with what it ran, and is not run again by a later call;
# FUZZ_ONLY takes those whose folder matches.
set -euo pipefail
time=${1:-10s}
seen=${FUZZ_DONE:-/dev/null}
output=$(mktemp)
trap 'rm -f "$output"' EXIT
for file in $(grep -rl '^func Fuzz' --include='*_test.go' internal | grep -e "${FUZZ_ONLY:-.}"); do
  for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file"); do
    name="$(dirname "$file") $target $time:"
    if grep -qF "$name" "$seen" 2>/dev/null; then
      continue
    fi
    echo "$name"
    go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x -parallel "${FUZZ_PARALLEL:-2}" | tee "$output"
    echo "$name $(grep execs: "$output" | tail -1)" >>"$seen"
  done
done
