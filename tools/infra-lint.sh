#!/usr/bin/env bash
# Asks other people's tools about what is synthesised: cfn-lint (AWS's own schemas of resources) about the committed templates, which infra-test holds equal to
# the synthesised ones, and asl-validator about the state machine. A tool that cannot be had is skipped, or fails when STRICT=1.
# Not asked: W3005, dependencies that the CDK writes beside references; E3601, a JSON schema of state machines that takes no JSONata for MaxConcurrency.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3} venv=${VENV:-.venv}
missing() {
  echo "infra-lint: $1 is missing: $2 is not asked"
  [ "${STRICT:-}" != 1 ]
}
if command -v "$python" >/dev/null; then
  if [ tools/requirements-lint.txt -nt "$venv/lint" ]; then
    "$python" -m venv "$venv" && "$venv/bin/pip" -q install -r tools/requirements-lint.txt && touch "$venv/lint"
  fi
  "$venv/bin/cfn-lint" --ignore-checks W3005 E3601 -- infra/testdata/template.golden.json infra/testdata/e2e/template.json docs/bucket-roles.json
else
  missing "$python" cfn-lint
fi
if command -v npm >/dev/null; then
  if [ tools/asl/package-lock.json -nt tools/asl/node_modules/.ok ]; then
    npm ci --prefix tools/asl --no-fund --no-audit --silent && touch tools/asl/node_modules/.ok
  fi
  mkdir -p bin
  sed -E 's/\$\{[A-Za-z]+\}/1/g' internal/workflow/definition/maintain.asl.json >bin/maintain.asl.json
  tools/asl/node_modules/.bin/asl-validator --json-path bin/maintain.asl.json
else
  missing npm asl-validator
fi
