//go:build bench

package enginebench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

// contestant makes the test binary one of the contestants.
const contestant = "BENCH_CONTESTANT"

// TestMain runs a contestant when it is asked to be one.
func TestMain(m *testing.M) {
	name := os.Getenv(contestant)
	if name == "" {
		os.Exit(m.Run())
	}
	files, err := filepath.Glob(filepath.Join(os.Getenv("BENCH_DATA"), "part-*.parquet"))
	if n, wrong := strconv.Atoi(os.Getenv("BENCH_FILES")); err == nil && wrong == nil && n <= len(files) {
		run := map[string]func([]string, string) error{"copy": copyBytes, "recode": recode, "arrow-go": arrowMerge, "engine": engineMerge}
		err = run[name](files[:n], os.Getenv("BENCH_OUT"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// copyBytes is the floor of all engines: reads and writes of 4 MB.
func copyBytes(files []string, out string) (err error) {
	w, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, w.Close()) }()
	buffer := make([]byte, 4<<20)
	for _, name := range files {
		r, err := os.Open(name)
		if err != nil {
			return err
		}
		for {
			n, err := r.Read(buffer)
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	return nil
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// level is the codec's level that the tables and DuckDB have.
func level(codec encoding.Codec) int {
	if codec == encoding.Zstd {
		return zstdLevel
	}
	return encoding.DefaultLevel
}

// recode decompresses every page and compresses it again at the same level, the floor of engines that make pages anew.
func recode(files []string, out string) (err error) {
	target, err := os.Create(out)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(target, 1<<20)
	defer func() { err = firstError(err, firstError(w.Flush(), target.Close())) }()
	coders := map[encoding.Codec]*encoding.Compressor{}
	var d encoding.Decompressor
	var plain, packed []byte
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		length, err := footer.Length(data, int64(len(data)))
		if err != nil {
			return err
		}
		end := int64(len(data)) - footer.TrailerBytes
		f, err := footer.DecodeFile(data[end-length : end])
		if err != nil {
			return err
		}
		for _, g := range f.RowGroups() {
			for _, c := range g.Columns() {
				m := c.Metadata()
				codec := encoding.Codec(m.IntOr(footer.ColumnCodec, 0))
				if coders[codec] == nil {
					if coders[codec], err = encoding.NewCompressor(codec, level(codec)); err != nil {
						return err
					}
				}
				offset, size := m.Span()
				for chunk := data[offset : offset+size]; len(chunk) > 0; {
					h, err := footer.DecodePage(chunk)
					if err != nil {
						return err
					}
					body := chunk[h.Length : h.Length+int(h.CompressedBody())]
					if plain, err = d.Decompress(plain, body, codec, int(h.Body())); err != nil {
						return err
					}
					if packed, err = coders[codec].Append(packed[:0], plain); err != nil {
						return err
					}
					if _, err := w.Write(packed); err != nil {
						return err
					}
					chunk = chunk[h.Length+len(body):]
				}
			}
		}
	}
	return nil
}

// arrowMerge reads record batches and writes them, as iceberg-go does.
func arrowMerge(files []string, out string) (err error) {
	ctx := context.Background()
	target, err := os.Create(out)
	if err != nil {
		return err
	}
	var w *pqarrow.FileWriter
	for _, name := range files {
		r, err := file.OpenParquetFile(name, true)
		if err != nil {
			return err
		}
		reader, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{BatchSize: 64 << 10}, memory.DefaultAllocator)
		if err != nil {
			return err
		}
		if w == nil {
			schema, err := reader.Schema()
			if err != nil {
				return err
			}
			codec := r.MetaData().RowGroups[0].Columns[0].MetaData.Codec
			props := parquet.NewWriterProperties(parquet.WithCompression(compress.Compression(codec)), parquet.WithCompressionLevel(level(encoding.Codec(codec))), parquet.WithMaxRowGroupLength(1_000_000))
			if w, err = pqarrow.NewFileWriter(schema, target, props, pqarrow.DefaultWriterProps()); err != nil {
				return err
			}
		}
		records, err := reader.GetRecordReader(ctx, nil, nil)
		if err != nil {
			return err
		}
		for records.Next() {
			if err := w.WriteBuffered(records.RecordBatch()); err != nil {
				return err
			}
		}
		if err := records.Err(); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		records.Release()
		if err := r.Close(); err != nil {
			return err
		}
	}
	return w.Close()
}
