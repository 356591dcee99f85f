#!/usr/bin/env bash
# Fails when a function's bootstrap would not fit: 25 MB zipped is our own limit, half of what Lambda takes directly.
set -euo pipefail
for f in "$1"/*/bootstrap; do
  zipped=$(gzip -6 -c "$f" | wc -c)
  printf '%-30s %6.1f MB, %5.1f MB zipped\n' "$f" "$(echo "$(stat -c %s "$f") / 1000000" | bc -l)" "$(echo "$zipped / 1000000" | bc -l)"
  [ "$zipped" -lt 25000000 ] || { echo "$f is over 25 MB zipped"; exit 1; }
done
