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
CDK_CONTEXT_JSON="{$context}" CDK_OUTDIR="$root/cdk.out" go run -C "$root/infra" .
echo "$root/cdk.out/Firn.template.json"
