//go:build tools

// Package tools pins the tools that the Makefile builds, so that the product's go.mod stays free of their requirements.
package tools

import _ "github.com/golangci/golangci-lint/v2/cmd/golangci-lint"
