// Command lake is somebody's own CDK app that holds Firn beside other things: a checkout of Firn, and two replace lines in go.mod.
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
		fmt.Fprintln(os.Stderr, "lake:", err)
		os.Exit(1)
	}
}

func run() error {
	s, err := settings.Parse(map[string]string{"warehouse": "s3://lake/warehouse", "tables": "raw.*,mart.*"})
	if err != nil {
		return err
	}
	if err := artifact.CheckNode(); err != nil {
		return err
	}
	root, err := artifact.Root()
	if err != nil {
		return err
	}
	config := filepath.Join(root, "dist", "lake-firn.yaml")
	if err := stack.WriteConfig(s, root, config); err != nil {
		return err
	}
	functions, err := artifact.Build(root)
	if err != nil {
		return err
	}
	defer jsii.Close()
	flags := stack.Flags()
	app := awscdk.NewApp(&awscdk.AppProps{Context: &flags})
	firn := stack.New(app, "Maintenance", &stack.Props{Settings: s, Artifacts: functions, Config: config})
	awscdk.Tags_Of(firn.Stack).Add(jsii.String("team"), jsii.String("lake"), nil)
	app.Synth(nil)
	return nil
}
