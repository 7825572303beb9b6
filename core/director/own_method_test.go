package director_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const confirmCapability = "/experimental/acme~1confirm"

// acmeDrivers are those of fakeDrivers and two of a third party: release judges
// steps that need an input of a kind of its own, and acme_confirm obtains it with
// a method of its own.
type acmeDrivers struct {
	*fakeDrivers
	sent string // the method that acme_confirm really sends
}

var acmeDescriptors = map[string]driver.Descriptor{
	"release": {Name: "release", Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{"release"}, Effect: driver.EffectPure},
	"acme_confirm": {
		Name: "acme_confirm", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{"acme.confirmation"}, Effect: driver.EffectPure,
		Features: []string{driver.FeatureHuman}, Needs: []string{confirmCapability},
		Sends: []driver.ClientMethod{{Method: "acme/confirm", Needs: []string{confirmCapability, "/experimental/acme~1voice"}}},
	},
}

func (d acmeDrivers) Describe(name string) (driver.Descriptor, string, bool) {
	if desc, ok := acmeDescriptors[name]; ok {
		return desc, "sha-of-" + name, true
	}
	return d.fakeDrivers.Describe(name)
}

func (d acmeDrivers) Challenge(name string) (driver.Challenge, bool) {
	if name == "release" {
		return release{}, true
	}
	return d.fakeDrivers.Challenge(name)
}

func (d acmeDrivers) Capability(name string, within time.Duration) (driver.Capability, bool) {
	if name == "acme_confirm" {
		return asking{name: name, method: d.sent, provenance: driver.ClientAttested, fail: d.fail}, true
	}
	return d.fakeDrivers.Capability(name, within)
}

type release struct{}

func (release) Validate(context.Context, driver.ValidateRequest) (driver.ValidateResult, error) {
	return driver.ValidateResult{}, nil
}

func (release) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	a, ok := req.Answer("confirmation")
	if !ok {
		return driver.Need(driver.Input{ID: "confirmation", Kind: "acme.confirmation", Type: "release", Description: "Ship it?", Schema: json.RawMessage(`{"type":"object"}`)}), nil
	}
	return driver.Accept(json.RawMessage(`{}`), a.Value), nil
}

// acmeWorld is a world with the drivers of the third party and a protocol that
// needs them, for a client with forms that declared these capabilities.
func acmeWorld(t *testing.T, sent, declared string) (w *world, uri string) {
	t.Helper()
	w = newWorld(t, nil)
	all := slices.Concat(slices.Collect(maps.Values(descriptors)), slices.Collect(maps.Values(acmeDescriptors)))
	yaml := strings.Replace(string(decision.Default().YAML), "inputs:\n", "inputs:\n  acme.confirmation: [{via: acme_confirm}]\n", 1)
	tree, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(yaml)}, all)
	if err != nil {
		t.Fatal(err)
	}
	w.setups.replace(drivers.Setup{Drivers: acmeDrivers{w.drivers, sent}, Tree: tree})
	w.caller.Client = driver.Client{ElicitationForm: true, Capabilities: json.RawMessage(declared)}
	return w, w.mint("# Ship\n\n## Release\n\nx\n\n```json\n{\"challenge\":{\"type\":\"release\",\"release\":{}}}\n```\n")[0]
}

const bothDeclared = `{"elicitation":{"form":{}},"experimental":{"acme/confirm":{},"acme/voice":{}}}`

func TestAnInputOfAThirdPartyIsObtainedWithItsOwnMethod(t *testing.T) {
	w, uri := acmeWorld(t, "acme/confirm", bothDeclared)
	w.begin(uri)
	a := w.ask(w.nextRound(uri, ""), "acme/confirm")
	if want := []string{confirmCapability, "/experimental/acme~1voice"}; !slices.Equal(a.Needs, want) || !a.Human {
		t.Errorf("Ask = %+v, want that it needs %v and that a person answers", a, want)
	}
	r := w.reply(w.answer(a, `{"action":"accept","content":{"by":"alice"}}`))
	if len(r.Solved) != 1 || r.Solved[0].Via != "acme_confirm" || r.Solved[0].Provenance != driver.ClientAttested {
		t.Errorf("solved = %+v (%s %s), want the step, by a person through acme_confirm", r.Solved, r.ErrorCode, r.Message)
	}
}

func TestWhatADriverMayNotSendIsNotSent(t *testing.T) {
	for name, tc := range map[string]struct {
		sent, declared string
		want           string // in the message
	}{
		"the driver lists another method":    {"acme/erase", bothDeclared, `does not declare that it sends "acme/erase"`},
		"a method of MCP that is not listed": {"elicitation/create", bothDeclared, `does not declare that it sends "elicitation/create"`},
		"a call of the client's own tools":   {"tools/call", bothDeclared, `does not declare that it sends "tools/call"`},
		"the client lacks what the method needs": {"acme/confirm", `{"experimental":{"acme/confirm":{}}}`,
			"the client did not declare /experimental/acme~1voice"},
		"the client lacks what the driver needs":  {"acme/confirm", `{"experimental":{"acme/voice":{}}}`, "no route is left"},
		"the client declares it in another place": {"acme/confirm", `{"extensions":{"acme/confirm":{},"acme/voice":{}}}`, "no route is left"},
		"the client declares nothing":             {"acme/confirm", ``, "no route is left"},
	} {
		t.Run(name, func(t *testing.T) {
			w, uri := acmeWorld(t, tc.sent, tc.declared)
			w.begin(uri)
			r := w.reply(w.nextRound(uri, ""))
			if r.ErrorCode != "DRIVER_UNAVAILABLE" || !strings.Contains(r.Message, tc.want) {
				t.Errorf("reply = %s %s, want DRIVER_UNAVAILABLE with %q", r.ErrorCode, r.Message, tc.want)
			}
		})
	}
}

func TestBadAnswersToAMethodOfAThirdPartyCloseItsRoute(t *testing.T) {
	for name, tc := range map[string]struct {
		reply director.Continuation
		want  string // in the message
	}{
		"method not found": {director.Continuation{Error: &driver.ClientError{Code: -32601, Message: "no such method"}}, "acme_confirm: unavailable"},
		"an error":         {director.Continuation{Error: &driver.ClientError{Code: -32000, Message: "the window is closed"}}, "acme_confirm: error"},
	} {
		t.Run(name, func(t *testing.T) {
			w, uri := acmeWorld(t, "acme/confirm", bothDeclared)
			w.begin(uri)
			a := w.ask(w.nextRound(uri, ""), "acme/confirm")
			tc.reply.Run, tc.reply.Seq = a.Run, a.Seq
			round, err := w.Continue(context.Background(), w.caller, tc.reply)
			if err != nil {
				t.Fatal(err)
			}
			if r := w.reply(round); r.ErrorCode != "DRIVER_UNAVAILABLE" || !strings.Contains(r.Message, tc.want) {
				t.Errorf("reply = %s %s, want DRIVER_UNAVAILABLE with %q", r.ErrorCode, r.Message, tc.want)
			}
		})
	}
	t.Run("nonsense", func(t *testing.T) {
		w, uri := acmeWorld(t, "acme/confirm", bothDeclared)
		w.begin(uri)
		round := w.nextRound(uri, "")
		for range 2 { // a route repeats an invalid answer once
			round = w.answer(w.ask(round, "acme/confirm"), `[1]`)
		}
		if r := w.reply(round); len(r.Solved) != 0 || r.ErrorCode == "" {
			t.Errorf("reply = %s %s %+v, want nothing solved", r.ErrorCode, r.Message, r.Solved)
		}
	})
}
