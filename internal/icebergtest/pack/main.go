// Command pack makes testdata/reference: it packs a folder of reference tables, one archive a table. Usage:
//
//	go run ./internal/icebergtest/pack SOURCE TARGET
//
// SOURCE holds digest-vectors.json and tables/<name>/{expected.json,objects/,oracle/}. The archives are tar inside zstd and depend on names and
// contents only, so that packing the same tables again changes nothing.
package main

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pack SOURCE TARGET")
		os.Exit(2)
	}
	if err := packAll(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func packAll(source, target string) error {
	tables, err := os.ReadDir(filepath.Join(source, "tables"))
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := packTable(filepath.Join(source, "tables", t.Name()), filepath.Join(target, t.Name()+".tar.zst")); err != nil {
			return fmt.Errorf("pack table %s: %w", t.Name(), err)
		}
	}
	vectors, err := os.ReadFile(filepath.Join(source, "digest-vectors.json"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(target, "digest-vectors.json"), vectors, 0o644) // test data is readable by all
}

func packTable(source, target string) (err error) {
	out, err := os.Create(target) // the caller names the folder
	if err != nil {
		return err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
	}()
	zw, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	tw := tar.NewWriter(zw)
	if err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		return add(tw, path, filepath.ToSlash(name))
	}); err != nil {
		return err
	}
	if err := tw.Close(); err != nil {
		return err
	}
	return zw.Close()
}

func add(tw *tar.Writer, path, name string) error {
	data, err := os.ReadFile(path) // the caller names the folder
	if err != nil {
		return err
	}
	if strings.Contains(name, "\x00") {
		return fmt.Errorf("name %q holds a zero byte", name)
	}
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = tw.Write(data)
	return err
}
