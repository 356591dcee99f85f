//go:build !linux

package runtimeapi

import (
	"os"
	"syscall"
)

// processAttributes has nothing to ask for: elsewhere no process is killed with its parent.
func processAttributes() *syscall.SysProcAttr { return nil }

func killGroup(p *os.Process) { _ = p.Kill() }

func terminateGroup(p *os.Process) { _ = p.Signal(os.Interrupt) }
