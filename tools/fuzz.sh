#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time.
set -euo pipefail
for file in $(grep -rl '^func Fuzz' --include='*_test.go' internal); do
  for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file"); do
    echo "$file $target"
    go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "${1:-10s}"
  done
done
