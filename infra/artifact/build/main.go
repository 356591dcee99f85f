// Command build builds the functions that are missing or older than the sources, as the CDK app would: `make synth` runs it beside the app's own build.
package main

import (
	"fmt"
	"os"

	"firn/infra/artifact"
)

func main() {
	root, err := artifact.Root()
	if err == nil {
		_, err = artifact.Build(root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
