// Package artifact builds Firn's functions for Lambda by plain `go build`: the same sources give the same bytes, without Docker.
package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"firn/internal/contract"
)

// maxBytes is Lambda's limit of an unzipped package.
const maxBytes = 250 << 20

// Root finds the checkout of Firn that a program was built with: in the checkout itself or in a module that replaces firn by a path.
func Root() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "firn").Output()
	root := strings.TrimSpace(string(out))
	if err != nil || root == "" {
		return "", fmt.Errorf("find the checkout of Firn: `go list -m firn` says nothing (replace firn and firn/infra by paths in go.mod): %w", err)
	}
	return root, nil
}

// Folder is where the functions for arm64 lie in a checkout: one folder a function with its bootstrap.
func Folder(root string) string { return filepath.Join(root, "dist", "arm64") }

// Build builds the functions that are missing or older than the sources, and checks their sizes. It returns Folder(root).
func Build(root string) (string, error) {
	folder := Folder(root)
	newest, err := newestSource(root)
	if err != nil {
		return "", err
	}
	var stale []string
	for _, name := range contract.Functions() {
		info, err := os.Stat(filepath.Join(folder, name, "bootstrap"))
		if err != nil || info.ModTime().Before(newest) {
			stale = append(stale, name)
		}
	}
	if len(stale) > 0 {
		if err := build(root, folder, stale); err != nil {
			return "", err
		}
	}
	return folder, Check(folder)
}

// Check faults functions that are missing or too big for Lambda.
func Check(folder string) error {
	var faults []error
	for _, name := range contract.Functions() {
		info, err := os.Stat(filepath.Join(folder, name, "bootstrap"))
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("function %s is not built: %w", name, err))
		case info.Size() > maxBytes:
			faults = append(faults, fmt.Errorf("function %s has %d bytes, Lambda takes %d", name, info.Size(), maxBytes))
		}
	}
	return errors.Join(faults...)
}

// build compiles the functions at once and moves each to its folder.
func build(root, folder string, names []string) error {
	fmt.Fprintln(os.Stderr, "building for linux/arm64:", strings.Join(names, ", "))
	scratch, err := os.MkdirTemp(root, ".build-")
	if err != nil {
		return fmt.Errorf("make folder for functions: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	args := []string{
		"build", "-trimpath", "-buildvcs=false", "-tags", "lambda.norpc,nosqlite", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w -buildid=", "-o", scratch + "/",
	}
	for _, name := range names {
		args = append(args, "./functions/"+name)
	}
	cmd := exec.Command("go", args...) //nolint:gosec // the names are the contract's
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0", "GOFLAGS=")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build functions: %w", err)
	}
	for _, name := range names {
		to := filepath.Join(folder, name)
		if err := os.MkdirAll(to, 0o755); err != nil { //nolint:gosec // Lambda's user reads it
			return fmt.Errorf("make folder of %s: %w", name, err)
		}
		if err := os.Rename(filepath.Join(scratch, name), filepath.Join(to, "bootstrap")); err != nil {
			return fmt.Errorf("place %s: %w", name, err)
		}
	}
	return nil
}

// newestSource is the time of the newest file that the functions are built from.
func newestSource(root string) (time.Time, error) {
	var newest time.Time
	note := func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "testdata" {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		return err
	}
	for _, part := range []string{"go.mod", "go.sum", "functions", "internal"} {
		if err := filepath.WalkDir(filepath.Join(root, part), note); err != nil {
			return newest, fmt.Errorf("look for sources: %w", err)
		}
	}
	return newest, nil
}

// CheckNode faults a Node that the CDK cannot run on. It is asked before the CDK starts, which would fail with a page of JavaScript.
func CheckNode() error {
	out, err := exec.Command("node", "--version").Output()
	if err != nil {
		return errors.New("node is not on the PATH: the CDK needs Node 20 or newer (22 is recommended)")
	}
	text := strings.TrimPrefix(strings.TrimSpace(string(out)), "v")
	major, _, _ := strings.Cut(text, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 20 {
		return fmt.Errorf("node is version %s: the CDK needs 20 or newer (22 is recommended)", text)
	}
	return nil
}
