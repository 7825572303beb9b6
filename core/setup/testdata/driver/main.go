// Command driver is a real small driver for the tests of package setup. Its
// behaviour is appended to the program in its own file, so that the tests can make
// another version of it without a compiler.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// mark stands in front of the traits; in two parts, so that this program's own
// constant is not found in their place.
const mark = "traits of this" + "\x00" + "driver:"

// traits are what the tests choose.
type traits struct {
	Version string `json:"version"`
	Agent   bool   `json:"agent"`  // the capability driver, else the challenge driver
	Reads   []int  `json:"reads"`  // state versions
	Writes  int    `json:"writes"` // state version
	Sick    bool   `json:"sick"`
	Strict  bool   `json:"strict"` // judges nothing
	Slow    bool   `json:"slow"`   // takes 5 ms to judge
	Free    bool   `json:"free"`   // isolates what it starts itself
	Lazy    string `json:"lazy"`   // its probe takes a second and makes this file first
}

func main() {
	t, err := own()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	d := driver.Driver{Descriptor: driver.Descriptor{
		Name: "staged", Version: t.Version, Role: driver.RoleChallenge, Handles: []string{"staged"}, Effect: driver.EffectPure,
		StateVersions: t.Reads, ConfigSchema: json.RawMessage(`{"type":"object"}`),
	}, Challenge: staged{traits: t}}
	if t.Free {
		d.Descriptor.Features = []string{driver.FeatureLauncher}
	}
	if t.Agent {
		d = driver.Driver{Descriptor: driver.Descriptor{
			Name: "agent", Version: t.Version, Role: driver.RoleCapability, Effect: driver.EffectPure,
			Handles:  []string{driver.KindEvidence, driver.KindApproval, driver.KindFiles, driver.KindRunInput},
			Features: []string{driver.FeatureAgent}, AnswersBy: []string{driver.ByAgent},
		}, Capability: agent{}}
	}
	driverrpc.Main(d)
}

// own reads the traits behind the program.
func own() (t traits, err error) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return t, err
	}
	at := bytes.LastIndex(self, []byte(mark))
	return t, json.Unmarshal(self[at+len(mark):], &t)
}

// staged wants two inputs, one after the other, and keeps state between them.
type staged struct{ traits }

func (s staged) Configure(_ context.Context, config json.RawMessage, _ bool) ([]driver.Diagnostic, error) {
	if strings.Contains(string(config), "nonsense") {
		return []driver.Diagnostic{driver.Problem("/nonsense", "means nothing to me")}, nil
	}
	return nil, nil
}

func (s staged) CheckHealth(context.Context) error {
	if s.Sick {
		return errors.New("I am sick")
	}
	if s.Lazy != "" {
		if err := os.WriteFile(s.Lazy, nil, 0o600); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return nil
}

func (staged) Validate(context.Context, driver.ValidateRequest) (driver.ValidateResult, error) {
	return driver.ValidateResult{}, nil
}

func (s staged) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	if s.Slow {
		time.Sleep(5 * time.Millisecond)
	}
	for _, id := range []string{"first", "second"} {
		if _, ok := req.Answer(id); ok {
			continue
		}
		res := driver.Need(driver.Input{
			ID: id, Kind: driver.KindEvidence, Type: "staged", Description: "say the " + id, Schema: json.RawMessage(`{"type":"object"}`),
		})
		res.State = driver.State{Version: s.Writes, Data: json.RawMessage(`{"at":"` + id + `"}`)}
		return res, nil
	}
	if s.Strict {
		return driver.CannotAdvance("this version judges nothing"), nil
	}
	return driver.Accept(json.RawMessage(`{"version":"`+s.Version+`"}`), nil), nil
}

type agent struct{}

func (agent) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	return driver.AskAgent(driver.AgentChallenge{Type: req.Input.Type, Description: req.Input.Description}), nil
}

func (agent) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	var solution map[string]json.RawMessage
	if err := json.Unmarshal(req.Raw, &solution); err != nil {
		return driver.NotAnAnswer(driver.Problem("", err.Error())), nil
	}
	return driver.Answered(solution["evidence"], driver.AgentReported), nil
}
