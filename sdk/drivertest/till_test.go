package drivertest_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// till is the sound driver with effects of the kit's own tests: it pays, and its
// answer is the number of the receipt. Some payments take time. Faults are as
// those of counter.
type till struct {
	plain
	fault string

	mu     sync.Mutex // guards the fields below
	dir    string
	memory map[string]payment // what a fault keeps in this process alone
}

// payment is what the till knows of a key.
type payment struct {
	Receipt int  `json:"receipt,omitempty"` // paid
	Asked   int  `json:"asked,omitempty"`   // takes time, and was asked about so often
	GivenUp bool `json:"given_up,omitempty"`
}

func tillDriver(fault string) driver.Driver {
	d := driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "till", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence},
			Effect: driver.EffectChanges, Features: []string{driver.FeatureRecover, driver.FeatureCancel},
			ConfigSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"dir":{"type":"string"}}}`),
		},
		Capability: &till{fault: fault, memory: map[string]payment{}},
	}
	if fault == "call/pending, cannot be asked" {
		d.Descriptor.Features = nil
	}
	return d
}

// tillConfig gives each till a folder of its own.
func tillConfig(t *testing.T) string { return fmt.Sprintf(`{"dir":%q}`, t.TempDir()) }

func (t *till) Configure(_ context.Context, config json.RawMessage, dryRun bool) ([]driver.Diagnostic, error) {
	var settings struct {
		Dir string `json:"dir"`
	}
	found := decoded(config, &settings)
	if !dryRun && len(config) > 0 && len(found) == 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.dir = settings.Dir
	}
	return found, nil
}

func (t *till) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case req.Input.Kind != driver.KindEvidence || req.IdempotencyKey == "" || t.dir == "":
		return driver.CannotRender("nothing to pay"), nil
	case req.Input.Description == tillClosed && t.fault == "call/recover-outcomes, not asked":
		return driver.RenderNotDone("closed"), nil
	case req.Input.Description == tillClosed:
		return driver.CannotRender("closed"), nil
	}
	known, found, err := t.find(req.IdempotencyKey)
	switch {
	case err != nil:
		return driver.RenderResult{}, err
	case req.Cancel && known.Receipt == 0 && (!found || t.fault != "call/cancels"):
		return driver.RenderNotDone("it was withdrawn"), t.keep(req.IdempotencyKey, payment{GivenUp: true})
	case req.Recover && (!found || known.GivenUp):
		return t.notDone(req)
	case t.fault == "call/late" && known.GivenUp && !req.Recover:
		return t.pay(req)
	case known.GivenUp:
		return driver.RenderResult{}, errors.New("it was given up")
	case t.fault == "call/acts-once" && known.Receipt > 0 && !req.Recover:
		return t.pay(req)
	case found:
		return t.tell(req, known)
	case t.fault == "call/not-done" && req.Attempt > 1:
		return driver.CannotRender("one attempt is enough"), nil
	}
	return t.pay(req)
}

// notDone answers a question about a key that is not known, and keeps it.
func (t *till) notDone(req driver.RenderRequest) (driver.RenderResult, error) {
	switch t.fault {
	case "call/recover-outcomes":
		return t.pay(req)
	case "call/recover-outcomes, why":
		return driver.RenderNotDone(""), t.keep(req.IdempotencyKey, payment{GivenUp: true})
	}
	return driver.RenderNotDone("there is no such payment"), t.keep(req.IdempotencyKey, payment{GivenUp: true})
}

func (t *till) pay(req driver.RenderRequest) (driver.RenderResult, error) {
	paid := payment{Asked: 1}
	if req.Input.Description != tillSlow {
		log, err := os.OpenFile(filepath.Join(t.dir, "receipts"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return driver.RenderResult{}, err
		}
		_, err = log.WriteString("\n")
		at, statErr := log.Stat()
		if err := errors.Join(err, statErr, log.Close()); err != nil {
			return driver.RenderResult{}, err
		}
		paid = payment{Receipt: int(at.Size())}
	}
	if err := t.keep(req.IdempotencyKey, paid); err != nil {
		return driver.RenderResult{}, err
	}
	return t.tell(req, paid)
}

// tell gives the outcome of a payment, or how far it is.
func (t *till) tell(req driver.RenderRequest, p payment) (driver.RenderResult, error) {
	if p.Receipt > 0 {
		switch {
		case req.Recover && t.fault == "call/recovers":
			return driver.RenderNotDone("there is no such payment"), nil
		case req.Recover && t.fault == "call/recovers, otherwise":
			p.Receipt = 0
		}
		value, err := json.Marshal(map[string]int{"receipt": p.Receipt})
		return driver.RenderResult{Answer: &driver.Answer{Value: value, Provenance: driver.ServerObserved}}, err
	}
	result := driver.RenderLater("the bank is working on it", time.Second)
	result.Pending.Progress = new(float64(min(p.Asked, 9)) / 10)
	switch t.fault {
	case "call/pending":
		result.Pending.RetryAfter = 48 * 3600
	case "call/pending, why":
		result.Pending.Reason = " "
	case "call/pending, how much":
		*result.Pending.Progress += 1
	case "call/pending-continues":
		*result.Pending.Progress = 1 / float64(p.Asked)
	case "call/pending-continues, lost":
		if req.Recover {
			return driver.RenderUnknown("who can tell"), nil
		}
	}
	p.Asked++
	return result, t.keep(req.IdempotencyKey, p)
}

// elsewhere reports whether a fault keeps such a payment in this process alone.
func (t *till) elsewhere(p payment) bool {
	return (t.fault == "call/recovers, elsewhere" && p.Receipt > 0) || (t.fault == "call/pending-continues, elsewhere" && p.Asked > 0)
}

func (t *till) file(key string) string {
	name := sha256.Sum256([]byte(key))
	return filepath.Join(t.dir, hex.EncodeToString(name[:]))
}

func (t *till) keep(key string, p payment) error {
	if t.elsewhere(p) {
		t.memory[key] = p
		return nil
	}
	content, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(t.file(key), content, 0o600)
}

func (t *till) find(key string) (p payment, found bool, err error) {
	if p, found = t.memory[key]; found {
		return p, true, nil
	}
	content, err := os.ReadFile(t.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	return p, true, json.Unmarshal(content, &p)
}

func (*till) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	var reply struct {
		Action string `json:"action"`
	}
	if req.ClientError == nil && json.Unmarshal(req.Raw, &reply) == nil && reply.Action == "decline" {
		return driver.PersonDeclined("no money"), nil
	}
	return driver.CannotInterpret("nobody was asked"), nil
}

// Descriptions of inputs that make the till do something else than pay.
const (
	tillSlow   = "Pay by letter."
	tillClosed = "Pay at night."
)

func tillSamples(fault string) []sampleOf {
	input := func(description string) string {
		return fmt.Sprintf(`"input":{"id":"evidence","kind":"evidence","description":%q}`, description)
	}
	out := []sampleOf{
		{"pay", "Render", `{` + input("Pay.") + `}`, "answer"},
		{"slow", "Render", `{` + input(tillSlow) + `}`, "pending"},
		{"closed", "Render", `{` + input(tillClosed) + `}`, "unavailable"},
		{"never paid", "Render", `{` + input("Pay.") + `,"recover":true}`, "not_done"},
		{"no", "Interpret", `{` + input("Pay.") + `,"raw":{"action":"decline"}}`, "declined"},
	}
	switch fault {
	case "call/recover-outcomes":
		out[3].want = "answer"
	case "call/recover-outcomes, not asked":
		out[2].want = "not_done"
	}
	return out
}
