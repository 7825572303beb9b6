package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/schema"
)

// follower is an agent that does only what it reads: the next_action of every
// reply, and what the text of a step says. Its person agrees to everything.
type follower struct {
	*served
	elicits bool
	values  map[string]string // what it writes for the angle brackets of a model
	wish    string            // what its user wants, in words of its own
	form    map[string]any    // what its person fills into forms
	tools   map[string]any    // what its other tools return, by name

	schemas map[string]json.RawMessage // that the server declares of replies
	heard   []spoken                   // of the tools and the person so far
	asked   int                        // how often the server asked the person itself
	draft   string                     // the document it wrote
	result  map[string]any
}

func newFollower(t *testing.T, drivers string, elicits bool) *follower {
	t.Helper()
	f := &follower{served: &served{t: t, dir: t.TempDir()}, elicits: elicits}
	f.write("kairos.yaml", "database: data/kairos.db\nadmin: {socket: run/admin.sock}\ndrivers: {dir: "+drivers+"}\n")
	can := hasNothing
	if elicits {
		can = `{"elicitation":{}}`
	}
	p := f.pipe(t, legacyEra, can)
	t.Cleanup(p.leave)
	f.client = p.mcpClient
	listed, err := p.open("tools/list", "", func(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, id) })
	if err != nil {
		t.Fatal(err)
	}
	text, err := listed.message()
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Result struct {
			Tools []struct {
				Name         string          `json:"name"`
				OutputSchema json.RawMessage `json:"outputSchema"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	f.schemas = map[string]json.RawMessage{}
	for _, tool := range list.Result.Tools {
		f.schemas[tool.Name] = tool.OutputSchema
	}
	return f
}

// use calls a tool and returns the JSON object that it answered as text.
func (f *follower) use(tool string, arguments map[string]any) map[string]any {
	f.t.Helper()
	reply, failed := f.try(tool, arguments)
	if failed {
		f.t.Fatalf("%s(%v) = %v", tool, arguments, reply)
	}
	return reply
}

// try is use for calls that may be refused. Every reply has to fit the schema
// that the server declares.
func (f *follower) try(tool string, arguments any) (reply map[string]any, failed bool) {
	f.t.Helper()
	at := len(f.heard)
	k := f.client.call(tool, strings.TrimSpace(string(encoded(f.t, arguments))))
	h := k.hear()
	for ; h.question != nil; h = k.hear() {
		f.asked++
		answer := map[string]any{"action": "accept", "content": f.fillIn(h.question.Params)}
		f.heard = append(f.heard, spoken{Asked: h.question.Method, Params: h.question.Params, Answer: answer})
		k.answer(h.question, strings.TrimSpace(string(encoded(f.t, answer))))
	}
	var m struct {
		Result struct {
			Content    []struct{ Text string }
			Structured json.RawMessage `json:"structuredContent"`
			IsError    bool
		}
	}
	if err := json.Unmarshal([]byte(h.message), &m); err != nil || len(m.Result.Content) == 0 {
		f.t.Fatalf("%s = %s: %v", tool, h.message, err)
	}
	r := m.Result
	if err := json.Unmarshal([]byte(r.Content[0].Text), &reply); err != nil {
		f.t.Fatalf("%s(%v) = %s", tool, arguments, r.Content[0].Text)
	}
	if found := schema.Validate(f.schemas[tool], r.Structured); found != nil {
		f.t.Errorf("%s: the reply %s does not fit its output schema: %v", tool, r.Structured, found)
	}
	f.heard = slices.Insert(f.heard, at, spoken{Call: tool, Arguments: arguments})
	f.heard = append(f.heard, spoken{Reply: r.Structured})
	return reply, r.IsError
}

// fillIn is what the person puts into a form.
func (f *follower) fillIn(params json.RawMessage) map[string]any {
	f.t.Helper()
	var p struct {
		Form struct {
			Properties map[string]any `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		f.t.Fatal(err)
	}
	content := map[string]any{}
	for name := range p.Form.Properties {
		content[name] = "approved"
		if v, ok := f.form[name]; ok {
			content[name] = v
		}
	}
	return content
}

// choice searches and returns the first choice of the role, or nil.
func (f *follower) choice(query, role string) map[string]any {
	f.t.Helper()
	for _, c := range f.use("kairos_search", map[string]any{"query": query})["choices"].([]any) {
		if c := c.(map[string]any); c["role"] == role {
			return c
		}
	}
	return nil
}

var (
	order       = regexp.MustCompile(`(?:call|retry) (kairos_\w+) with (kairos://mem/[0-9a-f-]{36})`)
	givenAnswer = regexp.MustCompile(`and solution (\{[^}]*\})`)
	givenInput  = regexp.MustCompile(`and input (\{.*\})`)
)

// follow obeys next_action from a choice to the attestation, or to a step that only a person
// can take, and returns the last reply.
func (f *follower) follow(reply map[string]any) map[string]any {
	f.t.Helper()
	for range 50 {
		if reply["error_code"] == "APPROVAL_UNAVAILABLE" {
			return reply
		}
		action, _ := reply["next_action"].(string)
		told := order.FindStringSubmatch(action)
		if told == nil || reply["error_code"] != nil && reply["error_code"] != "MISSING_INPUT" {
			f.t.Fatalf("the follower cannot continue: %v", reply)
		}
		arguments := map[string]any{"uri": told[2]}
		switch told[1] {
		case "kairos_begin":
			if given := givenInput.FindStringSubmatch(action); given != nil {
				arguments["input"] = f.filled(json.RawMessage(given[1]), map[string]any{"": f.form})
			}
		case "kairos_next":
			arguments["solution"] = f.solution(reply, action)
		case "kairos_attest":
			return f.use(told[1], map[string]any{"uri": told[2], "outcome": "success", "message": "Every step was done as written."})
		}
		reply, _ = f.try(told[1], arguments)
	}
	f.t.Fatal("the run does not end")
	return nil
}

func (f *follower) solution(reply map[string]any, action string) any {
	f.t.Helper()
	if given := givenAnswer.FindStringSubmatch(action); given != nil {
		return json.RawMessage(given[1])
	}
	challenge := reply["challenge"].(map[string]any)
	content := reply["current_step"].(map[string]any)["content"].(string)
	kind := challenge["type"].(string)
	demanded, _ := challenge[kind].(map[string]any)
	return map[string]any{
		"type": kind, "nonce": challenge["nonce"], "proof_hash": challenge["proof_hash"], kind: f.evidence(kind, demanded, content),
	}
}

func (f *follower) evidence(kind string, demanded map[string]any, content string) map[string]any {
	f.t.Helper()
	switch kind {
	case "shell":
		out, err := exec.Command("sh", "-c", demanded["cmd"].(string)).CombinedOutput()
		if err != nil {
			f.t.Fatalf("the command of the protocol failed: %v", err)
		}
		return map[string]any{"exit_code": 0, "stdout": string(out), "stderr": "", "duration_seconds": 0.1}
	case "user_input":
		return map[string]any{"confirmation": "approved"}
	case "comment":
		return map[string]any{"text": f.account(content)}
	case "mcp":
		tool := demanded["tool_name"].(string)
		arguments := f.arguments(tool)
		f.result, _ = f.tools[tool].(map[string]any)
		if wanted, ok := demanded["arguments"].(map[string]any); ok {
			arguments = wanted
		}
		if f.result == nil {
			f.result = map[string]any{"seen": true}
		}
		if strings.HasPrefix(tool, "kairos_") {
			f.result = f.use(tool, arguments)
		}
		return map[string]any{"tool_name": tool, "arguments": arguments, "result": f.result, "success": true}
	}
	f.t.Fatalf("the follower knows no challenge of type %s", kind)
	return nil
}

var model = regexp.MustCompile("(?s)````markdown\n(.*?)\n````")

// account is the comment on a step: the document, filled in, where the step
// holds a model of one, else the user's wish.
func (f *follower) account(content string) string {
	f.t.Helper()
	m := model.FindStringSubmatch(content)
	if m == nil {
		return f.wish
	}
	f.draft = regexp.MustCompile(`<[^>]+>`).ReplaceAllStringFunc(m[1], func(placeholder string) string {
		v, ok := f.values[strings.Trim(placeholder, "<>")]
		if !ok {
			f.t.Errorf("the model has %s, for which nothing is known", placeholder)
		}
		return v
	})
	return f.draft
}

func (f *follower) arguments(tool string) map[string]any {
	switch tool {
	case "kairos_mint":
		return map[string]any{"markdown_doc": f.draft, "llm_model_id": "follower"}
	case "kairos_search":
		return map[string]any{"query": strings.Join(strings.Fields(f.wish)[:3], " ")}
	}
	return map[string]any{}
}

func TestAnAgentThatFollowsTheBuiltInsWritesAndFindsAProtocol(t *testing.T) {
	t.Parallel()
	drivers := buildDrivers(t)
	for name, elicits := range map[string]bool{"a client that asks the person": true, "an agent alone": false} {
		t.Run(name, func(t *testing.T) {
			f := newFollower(t, drivers, elicits)
			f.wish = "greenhouse watering schedule: water the plants of the greenhouse once a day, and know that the tank holds enough."
			f.values = map[string]string{
				"title": "Water the greenhouse", "purpose": "Follow it every morning. At the end all plants have water for a day.",
				"phrase that people say": "the plants look dry", "another phrase": "who waters today",
				"heading of a step proved by a command": "Measure the tank", "instructions for the command": "Ask the tank how much water it holds.",
				"command":                            `echo \"tank: 80 %\"`,
				"heading of a step proved by a tool": "Open the valve", "instructions for the tool": "Open the valve for ten minutes.", "tool": "open_valve",
				"heading of a step proved by the user": "Look at the plants", "instructions for the question": "Ask whether every plant is wet.",
				"question":                               "Is the soil of every plant wet?",
				"heading of a step proved by an account": "Write the log", "instructions for the account": "Write how much water was used and which plants look unwell.",
			}
			if c := f.choice("greenhouse watering", "match"); c != nil {
				t.Fatalf("the empty library matches: %v", c)
			}
			f.verified(f.follow(f.choice("greenhouse watering", "create")))
			items, _ := f.result["items"].([]any)
			if f.result["status"] != "stored" || len(items) != 4 || f.result["warnings"] != nil {
				t.Fatalf("the protocol was minted with %v, want four steps without a warning", f.result)
			}
			minted := items[0].(map[string]any)["uri"]

			f.verified(f.follow(f.choice("qwzzk", "refine")))
			found := f.result["choices"].([]any)[0].(map[string]any)
			if found["uri"] != minted {
				t.Fatalf("the refined search found %v, want %v", found, minted)
			}

			f.wish = "Forty litres were used; the basil in the corner looks unwell."
			last := f.follow(found)
			if elicits {
				f.verified(last)
			} else if last["error_code"] != "APPROVAL_UNAVAILABLE" {
				t.Errorf("the agent answered the question to the person: %v", last)
			}
			if elicits != (f.asked == 3) {
				t.Errorf("the person was asked %d times by the server", f.asked)
			}
		})
	}
}

func (f *follower) verified(attested map[string]any) {
	f.t.Helper()
	if attested["verified"] != true {
		f.t.Fatalf("the run is not verified: %v", attested)
	}
}
