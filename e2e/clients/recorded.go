// Package clients tests KAIROS in the agent programs that people use: each is started
// without a person, with a scripted model on loopback, and what it does in each
// situation is compared with what is recorded here. It is not a test of models.
package clients

import (
	_ "embed"
	"sync"

	"github.com/goccy/go-yaml"
)

// The outcomes of a program in a situation: it works, or a limit that has its cause in Limits.
const (
	Works = "works"
	// NextSession says that the program does not start a dead server again, and that
	// its next session continues the run.
	NextSession = "next-session"
	// NoMenu says that a protocol cannot be started from a menu without a screen.
	NoMenu = "no-menu"
	// NeedsPermission says that the program waits until a person allows a request to its
	// model, and that nobody is there.
	NeedsPermission = "needs-permission"
)

// Recorded is what the programs did when they were played last.
type Recorded struct {
	Situations []Situation       `yaml:"situations"`
	Limits     map[string]Limit  `yaml:"limits"`
	Programs   map[string]Result `yaml:"programs"`
}

// Situation is a column of the table.
type Situation struct {
	Name  string `yaml:"name"`
	Title string `yaml:"title"`
	// Says is what happens in it.
	Says string `yaml:"says"`
}

// Limit is what a program cannot do.
type Limit struct {
	Says  string `yaml:"says"`
	Cause string `yaml:"cause"`
}

// Result is what one program did.
type Result struct {
	Title   string `yaml:"title"`
	Version string `yaml:"version"`
	Played  string `yaml:"played"` // the day
	// Tools counts the tools that the model is shown with their schemas, and Deferred
	// those that it sees by name only. ToolBytes is their size as the program passes
	// them to its model, and ReplyBytes that of the replies of a run.
	Tools      int `yaml:"tools"`
	Deferred   int `yaml:"deferred"`
	ToolBytes  int `yaml:"tool_bytes"`
	ReplyBytes int `yaml:"reply_bytes"`
	// Instructions says where the model reads the instructions of the server.
	Instructions string            `yaml:"instructions"`
	Cells        map[string]string `yaml:"cells"`
}

//go:embed recorded.yaml
var recorded []byte

// Read is recorded.yaml.
var Read = sync.OnceValue(func() (all Recorded) {
	if err := yaml.UnmarshalWithOptions(recorded, &all, yaml.Strict()); err != nil {
		panic(err) // a mistake in the file
	}
	return all
})
