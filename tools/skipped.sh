#!/usr/bin/env bash
# Names the suites that `go test ./...` leaves out, with what they need.
command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 ||
  echo "skipped: the PostgreSQL catalog suite (needs a postgres server binary: package postgresql)"
echo "not run by this target: make interop (needs Python and a JDK 17 with Maven; it sets up PyIceberg, DuckDB, Spark and parquet-java itself)"
echo "nor are the long ones: make matrix, make interop-nightly, make stress, make mutants, make e2e-mutants, make liveoracle, make fleet, make fuzz, make bench-engine; FIRN_BIG=1 adds the tests of half a gigabyte"
exit 0
