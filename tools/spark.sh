#!/usr/bin/env bash
# Sets up Spark for the histories of internal/interop: pyspark, PyIceberg and DuckDB with its Iceberg extension in .venv-spark, as
# tools/requirements-spark.txt pins them, and Iceberg's jar for Spark in .java/spark, held against its SHA-256. What cannot be had is said in one line; under
# STRICT=1 that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-spark
artifact=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0
sum=3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82
jar=.java/spark/iceberg-spark-runtime.jar
missing() {
  echo "histories of Spark, PyIceberg and DuckDB are skipped: no $1"
  exit "${STRICT:-0}"
}
command -v java >/dev/null || missing "Java runtime (a JDK 17)"
"${PYTHON:-python3}" -c 'import venv, ensurepip, sys; assert sys.version_info >= (3, 10)' 2>/dev/null || missing "Python 3.10 with venv"
if ! echo "$sum  $jar" | sha256sum --status -c 2>/dev/null; then
  command -v mvn >/dev/null || missing Maven
  mkdir -p .java/spark
  mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact="$artifact" -DoutputDirectory="$PWD/.java/spark" >/dev/null || missing "$artifact"
  mv .java/spark/iceberg-spark-runtime-*.jar "$jar"
  echo "$sum  $jar" | sha256sum --quiet -c
fi
if [ tools/requirements-spark.txt -nt $venv/ok ]; then
  "${PYTHON:-python3}" -m venv $venv
  $venv/bin/pip -q install -r tools/requirements-spark.txt || missing "pyspark with its companions from PyPI"
  touch $venv/ok
fi
