// Command infra is the CDK app of Firn: `go run -C infra .` from cdk.json. It reads the settings, builds the functions that are missing, and
// synthesises one stack, Firn. Every fault is said in one line before anything is synthesised.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"firn/infra/artifact"
	"firn/infra/settings"
	"firn/infra/stack"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "firn: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	root, err := artifact.Root()
	if err != nil {
		return err
	}
	values, err := settings.Context(os.Getenv("CDK_CONTEXT_JSON"), root)
	if err != nil {
		return err
	}
	s, err := settings.Parse(values)
	if err != nil {
		return err
	}
	if err := artifact.CheckNode(); err != nil {
		return err
	}
	config := filepath.Join(root, "dist", "firn.yaml")
	if err := stack.WriteConfig(s, root, config); err != nil {
		return err
	}
	folder, err := artifact.Build(root)
	if err != nil {
		return err
	}
	defer jsii.Close()
	flags := stack.Flags()
	app := awscdk.NewApp(&awscdk.AppProps{Context: &flags})
	stack.New(app, "Firn", &stack.Props{Settings: s, Artifacts: folder, Config: config})
	app.Synth(nil)
	return nil
}
