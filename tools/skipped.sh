#!/usr/bin/env bash
# Names the suites that `go test ./...` leaves out, with what they need.
command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 ||
  echo "skipped: the PostgreSQL catalog suite (needs a postgres server binary: package postgresql)"
echo "not run by this target: make interop (needs Python and a JDK 17 with Maven; it sets up PyIceberg, DuckDB and parquet-java itself)"
exit 0
