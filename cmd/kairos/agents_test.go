package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateRuns = flag.Bool("update", false, "write the golden runs; what agents see changes only when a reviewer agrees")

// spoken is one message of a transcript.
type spoken struct {
	Call      string          `json:"call,omitempty"`
	Arguments any             `json:"arguments,omitempty"`
	Asked     string          `json:"asked,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Answer    any             `json:"answer,omitempty"`
	Reply     json.RawMessage `json:"reply,omitempty"`
}

// followCalls obeys next_call alone, from a search to the attestation, and
// returns its reply. It reads no prose: what to fill in it knows from where a
// placeholder stands. Each template it first sends back untouched, which must
// get it nowhere.
func (f *follower) followCalls(reply map[string]any) map[string]any {
	f.t.Helper()
	for range 50 {
		call, _ := reply["next_call"].(map[string]any)
		if call == nil {
			f.t.Fatalf("the follower cannot continue: %v", reply)
		}
		tool := call["tool"].(string)
		arguments := f.filled(encoded(f.t, call["arguments"]), f.knowledge(reply))
		if !bytes.Equal(encoded(f.t, arguments), encoded(f.t, call["arguments"])) {
			f.refusedAsItIs(tool, call["arguments"])
		}
		reply, _ = f.try(tool, arguments)
		if tool == "kairos_attest" {
			return reply
		}
	}
	f.t.Fatal("the run does not end")
	return nil
}

// refusedAsItIs sends a template back.
func (f *follower) refusedAsItIs(tool string, template any) {
	f.t.Helper()
	refused, _ := f.try(tool, template)
	if code := refused["error_code"]; code != "MISSING_FIELD" && code != "INVALID_ARGUMENT" {
		f.t.Errorf("%s with the untouched template %v is not refused: %v", tool, template, refused)
	}
	if count, told := refused["retry_count"]; told && count != 0.0 {
		f.t.Errorf("the untouched template is counted as failure %v", count)
	}
}

// knowledge is what can stand in the next call's arguments, by place.
func (f *follower) knowledge(reply map[string]any) map[string]any {
	known := map[string]any{"input": f.form, "": map[string]any{"outcome": "success", "message": "Every step was done as written."}}
	challenge, open := reply["challenge"].(map[string]any)
	if call := reply["next_call"].(map[string]any); !open || call["tool"] != "kairos_next" || !bytes.Contains(encoded(f.t, call), []byte("<")) {
		return known
	}
	kind := challenge["type"].(string)
	demanded, _ := challenge[kind].(map[string]any)
	content := reply["current_step"].(map[string]any)["content"].(string)
	known["solution."+kind], known["solution.evidence"] = f.evidence(kind, demanded, content), f.form
	return known
}

// filled is the template with the values that are known by the place of their
// object. What is optional and not known is left out.
func (f *follower) filled(template json.RawMessage, known map[string]any) any {
	f.t.Helper()
	var v any
	if err := json.Unmarshal(template, &v); err != nil {
		f.t.Fatalf("the template %s: %v", template, err)
	}
	return f.filledAt("", v, known)
}

func (f *follower) filledAt(at string, v any, known map[string]any) any {
	f.t.Helper()
	m, ok := v.(map[string]any)
	if !ok {
		if text, ok := v.(string); ok && strings.HasPrefix(text, "<") {
			f.t.Fatalf("nothing is known for %s at %q", text, at)
		}
		return v
	}
	values, _ := known[at].(map[string]any)
	out := map[string]any{}
	for name, sub := range m {
		text, _ := sub.(string)
		value, ok := values[name]
		switch {
		case ok && bytes.Contains(encoded(f.t, sub), []byte("<")):
			out[name] = f.declared(text, value)
		case mayBeLeftOut.MatchString(text):
		case strings.HasPrefix(text, jsonAsText):
			out[name] = f.declared(text, known[strings.TrimPrefix(at+"."+name, ".")])
		default:
			out[name] = f.filledAt(strings.TrimPrefix(at+"."+name, "."), sub, known)
		}
	}
	return out
}

// mayBeLeftOut is a placeholder that says so of itself.
var mayBeLeftOut = regexp.MustCompile(`^<[^:]*, optional: `)

const jsonAsText = "<JSON as text"

// declared is a value as a host takes it that checks arguments by the listed schema.
func (f *follower) declared(placeholder string, value any) any {
	f.t.Helper()
	if _, text := value.(string); text || !strings.HasPrefix(placeholder, jsonAsText) {
		return value
	}
	if value == nil {
		f.t.Fatalf("nothing is known for %s", placeholder)
	}
	return strings.TrimSpace(string(encoded(f.t, value)))
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// calendar is examples/calendar-appointment.md for an agent whose calls count. Its tools
// return what is set here.
func (f *follower) calendar() string {
	f.t.Helper()
	doc, err := os.ReadFile("../../examples/calendar-appointment.md")
	if err != nil {
		f.t.Fatal(err)
	}
	f.form = map[string]any{"participants": []any{"Albert"}, "duration_minutes": 45}
	f.tools = map[string]any{
		"find_user_by_name": map[string]any{"resolved": map[string]any{"Albert": "albert@example.org"}},
		"find_slot": map[string]any{
			"start": "2026-03-04T10:00:00Z", "end": "2026-03-04T10:45:00Z", "participants": []any{"albert@example.org"},
		},
		"create_event": map[string]any{"success": true, "event_id": "e-1"},
	}
	return strings.ReplaceAll(string(doc), `    "evidence": "server",`+"\n", "")
}

func TestAgentsThatReadOnlyCallsOrOnlyProsePlayEverything(t *testing.T) {
	long(t)
	t.Parallel()
	drivers := buildDrivers(t)
	for name, follow := range map[string]func(f *follower) map[string]any{
		"next_call": func(f *follower) map[string]any {
			return f.followCalls(f.use("kairos_search", map[string]any{"query": "create a calendar appointment"}))
		},
		"next_action": func(f *follower) map[string]any { return f.follow(f.choice("calendar appointment", "match")) },
	} {
		t.Run("the calendar by "+name, func(t *testing.T) {
			f := newFollower(t, drivers, true)
			f.use("kairos_mint", map[string]any{"markdown_doc": f.calendar(), "llm_model_id": "follower"})
			f.verified(follow(f))
			if f.asked != 2 { // the call that begins the run has a place for the participants
				t.Errorf("the person was asked %d times, want for the duration and the booking", f.asked)
			}
		})
	}
	t.Run("the built-ins by next_call", func(t *testing.T) {
		f := newFollower(t, drivers, false)
		f.wish = "greenhouse watering: water the plants of the greenhouse once a day, and know that the tank holds enough."
		f.values = map[string]string{}
		for _, placeholder := range regexp.MustCompile(`<([^>]+)>`).FindAllStringSubmatch(builtinText(t, "create.md"), -1) {
			f.values[placeholder[1]] = "Greenhouse watering: " + placeholder[1]
		}
		f.values["command"] = "true"
		f.values["phrase that people say"], f.values["another phrase"] = "the plants look dry", "who waters today"
		create := f.choice("greenhouse watering", "create")["uri"]
		f.verified(f.followCalls(f.use("kairos_begin", map[string]any{"uri": create})))
		if f.result["status"] != "stored" {
			t.Fatalf("the protocol was minted with %v", f.result)
		}
		minted := f.result["next_call"].(map[string]any)["arguments"].(map[string]any)["uri"]
		f.verified(f.followCalls(f.use("kairos_begin", map[string]any{"uri": f.choice("qwzzk", "refine")["uri"]})))
		if found := f.result["choices"].([]any)[0].(map[string]any)["uri"]; found != minted {
			t.Errorf("the refined search found %v, want %v", found, minted)
		}
	})
}

func builtinText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../core/library/builtin", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func challengeDoc(title, step, challenge string) string {
	doc := fmt.Sprintf("# %s\n\n## %s\n\nDo what it says and tell what came of it.\n", title, step)
	if challenge != "" {
		doc += "\n```json\n{\"challenge\": " + challenge + "}\n```\n"
	}
	return doc
}

// The files of testdata/runs are what agents see of a whole run. They are
// written with -update; a change of them is a change of the wire, to be reviewed
// as one.
func TestRunsAsAgentsSeeThem(t *testing.T) {
	long(t)
	t.Parallel()
	drivers := buildDrivers(t)
	for name, tc := range map[string]struct {
		doc     string
		elicits bool
	}{
		"shell":        {doc: challengeDoc("Greet the world", "Say hello", `{"type": "shell", "shell": {"cmd": "echo hello", "timeout_seconds": 5}}`)},
		"mcp":          {doc: challengeDoc("Look up a user", "Find them", `{"type": "mcp", "mcp": {"tool_name": "find_user", "arguments": {"name": "Albert"}}}`)},
		"user_input":   {doc: challengeDoc("Ask first", "Get a yes", `{"type": "user_input", "user_input": {"prompt": "Shall it be done?"}}`)},
		"comment":      {doc: challengeDoc("Keep a diary", "Write it down", `{"type": "comment", "comment": {"min_length": 20}}`)},
		"no_challenge": {doc: challengeDoc("Look around", "Look", "")},
		"server_driven": {
			doc: challengeDoc("Ask by a form", "Choose a day", `{"type": "user_input", "user_input": {"prompt": "Which day?"}, `+
				`"output_schema": {"type": "object", "properties": {"day": {"type": "string", "enum": ["monday", "tuesday"]}}, "required": ["day"]}}`),
			elicits: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFollower(t, drivers, tc.elicits)
			f.wish = "The tank was full in the morning and half empty at night."
			f.form = map[string]any{"day": "tuesday"}
			f.verified(f.followCalls(f.use("kairos_mint", map[string]any{"markdown_doc": tc.doc, "llm_model_id": "follower"})))
			got := stable(t, f.heard)
			golden := filepath.Join("testdata", "runs", name+".json")
			if *updateRuns {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("the run (-golden +got), write it with -update:\n%s", diff)
			}
		})
	}
}

// volatile is what differs from run to run, the longest first.
var volatile = regexp.MustCompile(`\b(?:[0-9a-f]{64}|[0-9a-f]{56}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|[0-9a-f]{16}|` +
	`\d{4}-\d\d-\d\dT[0-9:.]+Z)\b`)

// stable is a transcript in which every volatile value has a name of its own.
func stable(t *testing.T, heard []spoken) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, encoded(t, heard), "", "  "); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	count := map[string]int{}
	return volatile.ReplaceAllFunc(b.Bytes(), func(found []byte) []byte {
		value := string(found)
		if names[value] == "" {
			kind := "time"
			if !strings.Contains(value, "T") {
				kind = map[int]string{64: "hash", 56: "nonce", 36: "id", 32: "nonce", 16: "digest"}[len(value)]
			}
			count[kind]++
			names[value] = fmt.Sprintf("%s-%d", kind, count[kind])
		}
		return []byte(names[value])
	})
}
