#!/usr/bin/env bash
# Sets up the Java judges of tests under .java: jars as tools/java/pom.xml pins them, held against their SHA-256, and the classes of internal/interop/java.
# Without a JDK 17 or Maven it says so in one line; under STRICT=1 that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
sums=$PWD/tools/java/jars.sha256
missing() {
  echo "the Java judges need $1: install it (Debian: openjdk-17-jdk-headless maven), or set JAVA_HOME"
  exit "${STRICT:-0}"
}
[ -n "${JAVA_HOME:-}" ] && PATH=$JAVA_HOME/bin:$PATH
version=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p') || true
[ "${version:-0}" -ge 17 ] || missing "a JDK 17 or newer"
mkdir -p .java/lib
if ! (cd .java/lib && sha256sum --quiet -c "$sums") >/dev/null 2>&1; then
  command -v mvn >/dev/null || missing Maven
  rm -f .java/lib/*.jar
  mvn -q -B -f tools/java/pom.xml dependency:copy-dependencies -DoutputDirectory="$PWD/.java/lib" -DincludeScope=runtime
  rm -rf tools/java/target
  if [ "${1:-}" = pin ]; then
    (cd .java/lib && LC_ALL=C sha256sum -- *.jar >"$sums")
  fi
  (cd .java/lib && sha256sum --quiet -c "$sums")
  [ "$(ls .java/lib | wc -l)" = "$(wc -l <"$sums")" ] || { echo "jars that tools/java/jars.sha256 does not name: see .java/lib"; exit 1; }
fi
mapfile -t sources < <(find internal/interop/java -name '*.java')
made=$(mktemp -d .java/classes.XXXXXX)
trap 'rm -rf "$made"' EXIT
javac -nowarn -Xlint:-options --release 17 -cp '.java/lib/*' -d "$made" "${sources[@]}"
rm -rf .java/classes
mv "$made" .java/classes
touch .java/ok
