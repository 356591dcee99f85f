#!/usr/bin/env bash
# Installs what the suites need beyond Go and make, on a Debian machine where we may: a PostgreSQL server for the catalog suite; Python's venv module, a
# JDK and Maven for the interop suite; an emulator of arm64. Elsewhere it says what is missing; `make test` then skips those suites, unless STRICT=1.
set -euo pipefail
missing=()
command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing+=(postgresql)
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
command -v javac >/dev/null || [ -n "${JAVA_HOME:-}" ] || missing+=(openjdk-17-jdk-headless)
command -v qemu-aarch64-static >/dev/null || command -v qemu-aarch64 >/dev/null || missing+=(qemu-user-static)
command -v mvn >/dev/null || missing+=(maven)
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends "${missing[@]}" >/dev/null
else
  echo "for all suites install: ${missing[*]}"
fi
