package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

// asking gives a driver that asks through a new folder.
func asking(t *testing.T) (d driver.Driver, dir string) {
	t.Helper()
	d, dir = definition(), filepath.Join(t.TempDir(), "desk")
	config, err := json.Marshal(map[string]string{"folder": dir})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := d.Capability.(driver.Configurer).Configure(t.Context(), config, false); found != nil || err != nil {
		t.Fatalf("Configure(%s) = %v, %v", config, found, err)
	}
	return d, dir
}

const wantsText = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`

func question(key string) driver.RenderRequest {
	return driver.RenderRequest{
		Input:          driver.Input{ID: "evidence", Kind: driver.KindEvidence, Description: "What did the team decide?", Schema: json.RawMessage(wantsText)},
		Step:           driver.Step{Protocol: "Release", Label: "Decide", Text: "## Decide", Index: 1, Count: 1},
		IdempotencyKey: key, Attempt: 1,
	}
}

func render(t *testing.T, d driver.Driver, req driver.RenderRequest) driver.RenderResult {
	t.Helper()
	res, err := d.Capability.Render(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAnAnswerBelongsToItsQuestion(t *testing.T) {
	d, dir := asking(t)
	for _, key := range []string{"one", "two"} {
		if res := render(t, d, question(key)); res.Pending == nil || !strings.Contains(res.Pending.Reason, key) || res.Pending.RetryAfter != 5 {
			t.Fatalf("Render(%s) = %+v, want that it is asked in the folder, every 5 s", key, res)
		}
	}
	write(t, dir, "answers/two.json", `{"text":"Ship it."}`)
	if res := render(t, d, question("one")); res.Pending == nil {
		t.Errorf("Render(one) = %+v, want it to wait for its own answer", res)
	}
	res := render(t, d, question("two"))
	if res.Answer == nil || string(res.Answer.Value) != `{"text":"Ship it."}` || res.Answer.Provenance != driver.LinkHolder {
		t.Errorf("Render(two) = %+v, want the answer in the folder", res)
	}
}

func TestAQuestionThatIsAskedAgainStaysAsItIs(t *testing.T) {
	d, dir := asking(t)
	req := question("one")
	req.Attempt, req.Diagnostics = 2, []driver.Diagnostic{driver.Problem("", "COMMENT_TOO_SHORT: Say more.")}
	render(t, d, req)
	first, err := os.ReadFile(filepath.Join(dir, "requests", "one.json"))
	if err != nil {
		t.Fatal(err)
	}
	var asked request
	if err := json.Unmarshal(first, &asked); err != nil {
		t.Fatal(err)
	}
	if asked.Protocol != "Release" || asked.Step != "Decide" || asked.Text != "## Decide" || asked.Question != "What did the team decide?" || asked.Attempt != 2 ||
		len(asked.Schema) == 0 || len(asked.Refused) != 1 || asked.Refused[0] != "COMMENT_TOO_SHORT: Say more." {
		t.Errorf("request = %s, want all that is needed to answer", first)
	}
	if err := os.WriteFile(filepath.Join(dir, "requests", "one.json"), []byte("taken by Ann"), 0o600); err != nil {
		t.Fatal(err)
	}
	render(t, d, req)
	names, err := os.ReadDir(filepath.Join(dir, "requests"))
	if again, _ := os.ReadFile(filepath.Join(dir, "requests", "one.json")); err != nil || len(names) != 1 || string(again) != "taken by Ann" {
		t.Errorf("asked again the folder has %v with %q, %v, want the request untouched", names, again, err)
	}
}

func TestWhatIsNotAnAnswerIsSaidAndCanBeReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		put  func(t *testing.T, dir string)
		says string
	}{
		"half a file":   {func(t *testing.T, dir string) { write(t, dir, "answers/one.json", `{"text":`) }, "is not JSON"},
		"no text":       {func(t *testing.T, dir string) { write(t, dir, "answers/one.json", `{"txt":"ok"}`) }, "is not an answer: "},
		"a large file":  {func(t *testing.T, dir string) { write(t, dir, "answers/one.json", strings.Repeat(" ", maxAnswer+1)) }, "more than 1048576 bytes"},
		"a folder":      {func(t *testing.T, dir string) { write(t, dir, "answers/one.json/x", "") }, "is not a file"},
		"a link abroad": {link, "is not a file"},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := asking(t)
			render(t, d, question("one"))
			tc.put(t, dir)
			if res := render(t, d, question("one")); res.Pending == nil || !strings.Contains(res.Pending.Message, tc.says) {
				t.Fatalf("Render = %+v, want to wait, and %q", res, tc.says)
			}
			if err := os.RemoveAll(filepath.Join(dir, "answers", "one.json")); err != nil {
				t.Fatal(err)
			}
			write(t, dir, "answers/one.json", `{"text":"ok"}`)
			if res := render(t, d, question("one")); res.Answer == nil {
				t.Errorf("Render = %+v, want the answer that took its place", res)
			}
		})
	}
}

// link makes the answer a link to a file outside of the folder.
func link(t *testing.T, dir string) {
	t.Helper()
	write(t, filepath.Dir(dir), "secret.json", `{"text":"the key of the vault"}`)
	if err := os.Symlink("../../secret.json", filepath.Join(dir, "answers", "one.json")); err != nil {
		t.Fatal(err)
	}
}

func TestNothingButEvidenceIsAskedFor(t *testing.T) {
	d, dir := asking(t)
	approval, secret, unnamed, path := question("one"), question("one"), question(""), question("../one")
	approval.Input.Kind, secret.Input.Sensitive = driver.KindApproval, true
	for name, req := range map[string]driver.RenderRequest{"approval": approval, "secret": secret, "no key": unnamed, "a path": path} {
		if res := render(t, d, req); res.Unavailable == nil {
			t.Errorf("Render(%s) = %+v, want unavailable", name, res)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is there (%v), want nothing written", err)
	}
}

func TestContract(t *testing.T) {
	d, dir := asking(t)
	write(t, dir, "answers/answered.json", `{"text":"Ship it."}`)
	approval := question("")
	approval.Input.Kind = driver.KindApproval
	drivertest.Run(t, d,
		drivertest.Sample{Name: "asks", Request: question(""), Want: drivertest.Pending},
		drivertest.Sample{Name: "answered", Request: question("answered"), Want: drivertest.Answer},
		drivertest.Sample{Name: "approval", Request: approval, Want: drivertest.Unavailable},
		drivertest.Sample{Name: "reply", Request: driver.InterpretRequest{Raw: json.RawMessage(`{}`)}, Want: drivertest.Unavailable},
	)
}
