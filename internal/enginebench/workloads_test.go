//go:build bench

package enginebench

import (
	"fmt"
	"slices"
)

// workload is an input and what is done with it.
type workload struct {
	name string
	// inputs is the kind that generate.py makes, files how many of them at full size, deletes the kind of deletes in them.
	inputs  string
	files   int
	deletes string
	codec   string
	// order sorts, in DuckDB's words; sortOrder in Firn's.
	order, sortOrder string
	// properties are set on the table; zstd has level 3 unless they say another.
	properties []string
	// contestants run in this order each round. firn is the program, a process from the start to the commit; engine is what merges in it, alone.
	contestants []string
	// scans reads the results of engine and duckdb with DuckDB.
	scans bool
}

func workloads() []workload {
	floors := []string{"engine", "firn", "duckdb", "arrow-go", "copy", "recode"}
	cores := append(slices.Clone(floors), "engine, one core")
	tiers := append(slices.Clone(cores), "engine, no level")
	deletes := []string{"firn", "duckdb", "firn, no level", "firn, one core"}
	ordered := []string{"engine", "duckdb"}
	rows := func(name string, files int, mb int) workload {
		return workload{
			name: name, inputs: "events-zstd", files: files, codec: "zstd", contestants: []string{"firn"},
			properties: []string{fmt.Sprintf("write.parquet.row-group-size-bytes=%d", mb<<20)},
		}
	}
	return []workload{
		{
			name: "row groups kept", inputs: "events-zstd", files: 128, codec: "zstd", contestants: []string{"engine", "firn", "duckdb", "copy"},
			properties: []string{"write.parquet.row-group-size-bytes=4194304"},
		},
		{name: "events zstd", inputs: "events-zstd", files: 128, codec: "zstd", contestants: tiers, scans: true},
		{name: "events snappy", inputs: "events-snappy", files: 128, codec: "snappy", contestants: floors},
		{name: "events all dictionary", inputs: "events-dictionary", files: 128, codec: "zstd", contestants: tiers},
		{name: "lineitem", inputs: "lineitem", files: 128, codec: "zstd", contestants: floors},
		{name: "lineitem all dictionary", inputs: "lineitem-dictionary", files: 128, codec: "zstd", contestants: tiers},
		{name: "blobs", inputs: "blobs", files: 128, codec: "zstd", contestants: []string{"firn", "duckdb", "copy"}},
		{name: "tiny files", inputs: "tiny", files: 1500, codec: "zstd", contestants: tiers, scans: true},
		{name: "events to another codec", inputs: "events-snappy", files: 128, codec: "zstd", contestants: []string{"engine", "duckdb", "engine, no level", "engine, one core"}},
		{name: "random deletes", inputs: "events-zstd", files: 128, deletes: "random", codec: "zstd", contestants: deletes},
		{name: "clustered deletes", inputs: "events-zstd", files: 128, deletes: "clustered", codec: "zstd", contestants: deletes},
		{name: "sort", inputs: "events-zstd", files: 350, codec: "zstd", contestants: ordered, order: "user_id", sortOrder: "user_id"},
		{name: "z-order", inputs: "events-zstd", files: 350, codec: "zstd", contestants: ordered, order: "user_id, ts", sortOrder: "zorder(user_id, ts)"},
		rows("32 inputs", 32, 128), rows("350 inputs", 350, 128), rows("64 MB row groups", 350, 64), rows("512 MB row groups", 350, 512),
	}
}

// target is a figure that a rewrite has to reach.
type target struct {
	what string
	// want is the least, or with most the greatest value.
	want float64
	most bool
	// of is a median; with by it is divided by another.
	of, by point
}

// point names a median of the results.
type point struct {
	workload, contestant string
	of                   func(figure) float64
}

func cpu(f figure) float64  { return f.CPU }
func wall(f figure) float64 { return f.Wall }
func rss(f figure) float64  { return f.RSS }
func size(f figure) float64 { return f.Bytes }
func grown(f figure) float64 {
	return f.Bytes / f.Input
}

func targets() (out []target) {
	ratio := func(what string, want float64, workload, contestant string) {
		out = append(out, target{what: what, want: want, of: point{workload, "duckdb", cpu}, by: point{workload, contestant, cpu}})
	}
	most := func(what string, want float64, of, by point) {
		out = append(out, target{what: what, want: want, most: true, of: of, by: by})
	}
	least := func(what string, want float64, of, by point) {
		out = append(out, target{what: what, want: want, of: of, by: by})
	}
	least("row groups kept: CPU of a byte copy / engine", 0.8, point{"row groups kept", "copy", cpu}, point{"row groups kept", "engine", cpu})
	ratio("events zstd: CPU of DuckDB / engine", 12, "events zstd", "engine")
	ratio("events snappy: CPU of DuckDB / engine", 9, "events snappy", "engine")
	ratio("lineitem: CPU of DuckDB / engine", 8, "lineitem", "engine")
	ratio("events all dictionary: CPU of DuckDB / engine", 3, "events all dictionary", "engine")
	ratio("lineitem all dictionary: CPU of DuckDB / engine", 3, "lineitem all dictionary", "engine")
	for _, w := range []string{"events zstd", "events snappy", "lineitem", "events all dictionary", "lineitem all dictionary"} {
		most(w+": output / input", 1, point{w, "engine", grown}, point{})
	}
	ratio("events zstd: CPU of DuckDB / whole program", 5, "events zstd", "firn")
	ratio("blobs: CPU of DuckDB / whole program", 5, "blobs", "firn")
	ratio("tiny files: CPU of DuckDB / engine", 1.3, "tiny files", "engine")
	most("tiny files: output / DuckDB's", 1.05, point{"tiny files", "engine", size}, point{"tiny files", "duckdb", size})
	most("tiny files: CPU of a scan / of DuckDB's file", 1, point{"tiny files", "engine, scan", cpu}, point{"tiny files", "duckdb, scan", cpu})
	most("events zstd: CPU of a scan / of DuckDB's file", 1, point{"events zstd", "engine, scan", cpu}, point{"events zstd", "duckdb, scan", cpu})
	ratio("events to another codec: CPU of DuckDB / engine", 1.25, "events to another codec", "engine")
	ratio("random deletes: CPU of DuckDB / whole program", 1.2, "random deletes", "firn")
	ratio("clustered deletes: CPU of DuckDB / whole program", 2, "clustered deletes", "firn")
	for _, w := range []string{"sort", "z-order"} {
		ratio(w+": CPU of DuckDB's ORDER BY / engine", 1, w, "engine")
		most(w+": memory / DuckDB's", 0.4, point{w, "engine", rss}, point{w, "duckdb", rss})
		most(w+": memory, MB", 350, point{w, "engine", rss}, point{})
	}
	for _, w := range []string{"row groups kept", "events zstd", "events snappy", "lineitem", "lineitem all dictionary", "tiny files", "random deletes", "350 inputs"} {
		most(w+": memory of the program, MB", 200, point{w, "firn", rss}, point{})
	}
	most("memory with 350 inputs / 32", 1.2, point{"350 inputs", "firn", rss}, point{"32 inputs", "firn", rss})
	most("memory with row groups of 512 MB / 64 MB", 1.2, point{"512 MB row groups", "firn", rss}, point{"64 MB row groups", "firn", rss})
	for _, w := range []string{"events zstd", "tiny files", "events to another codec"} {
		least(w+": wall time of one core / two", 1.5, point{w, "engine, one core", wall}, point{w, "engine", wall})
	}
	least("random deletes: wall time of one core / two", 1.5, point{"random deletes", "firn, one core", wall}, point{"random deletes", "firn", wall})
	return out
}
