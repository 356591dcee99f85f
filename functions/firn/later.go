package main

// Verbs that are part of the interface and not built yet: each says so and ends with the status of a refusal.

type (
	verifyCommand struct {
		Table      string `required:"" placeholder:"NS.T"`
		SnapshotID string `name:"snapshot-id" placeholder:"ID"`
		JSON       bool   `name:"json"`
	}
	restoreCommand struct {
		RunID string `name:"run" required:"" placeholder:"ID"`
	}
	replayCommand struct {
		Table  string `required:"" placeholder:"NS.T"`
		Since  string `required:"" placeholder:"30d"`
		Policy string `placeholder:"FILE"`
		JSON   bool   `name:"json"`
	}
	serveCommand struct {
		Every string `placeholder:"30s"`
		HTTP  string `name:"http" placeholder:"ADDR"`
	}
)

// Run refuses.
func (*verifyCommand) Run(*app) error { return &notBuiltError{"firn verify"} }

// Run refuses.
func (*restoreCommand) Run(*app) error { return &notBuiltError{"firn restore"} }

// Run refuses.
func (*replayCommand) Run(*app) error { return &notBuiltError{"firn replay"} }

// Run refuses.
func (*serveCommand) Run(*app) error { return &notBuiltError{"firn serve"} }
