#!/usr/bin/env bash
# Synthesises without the CDK's command line: turns -c key=value into the context that the app reads.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
context=
while [ $# -gt 0 ]; do
  [ "$1" = -c ] || [ "$1" = --context ] || { echo "synth: unknown argument $1: want -c key=value"; exit 2; }
  pair=${2:-}
  key=$(printf %s "${pair%%=*}" | sed 's/[\\"]/\\&/g')
  value=$(printf %s "${pair#*=}" | sed 's/[\\"]/\\&/g')
  context="$context${context:+,}\"$key\":\"$value\""
  shift 2
done
# On a fresh checkout the functions and the app are built beside each other: the one downloads while the other compiles. Later the app builds what is stale.
app=$(mktemp -d)
functions=
trap 'rm -rf "$app"; [ -z "$functions" ] || kill "$functions" 2>/dev/null || :' EXIT
[ -d "$root/dist/arm64" ] || { go run -C "$root/infra" ./artifact/build & functions=$!; }
go build -C "$root/infra" -gcflags=all=-dwarf=false -o "$app/infra" .
[ -z "$functions" ] || wait "$functions"
functions=
(cd "$root/infra" && CDK_CONTEXT_JSON="{$context}" CDK_OUTDIR="$root/cdk.out" "$app/infra")
echo "$root/cdk.out/Firn.template.json"
