#!/usr/bin/env bash
# Fails in one line when there is no Node that the CDK runs on.
set -euo pipefail
major=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/') || true
if [ "${major:-0}" -ge 20 ] 2>/dev/null; then exit 0; fi
echo "the CDK app needs Node 20 or newer on the PATH (22 is recommended): install it"
exit 1
