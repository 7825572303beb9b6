package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
)

// injected is a protocol whose tool puts an instruction into a field that no step
// names. Its results go into replies, into texts and arguments of later steps, and
// into the prompt of a model that judges.
const injected = "# Count\n\n" +
	"## Count without a schema\n\nCount.\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"name\":\"first\",\"evidence_from\":\"server\",\"judge\":{\"required\":true},\"mcp\":{\"tool_name\":\"count\",\"arguments\":{}}}}\n```\n\n" +
	"## Count with one\n\nIt said {{ steps.first.digest }}.\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"name\":\"second\",\"evidence_from\":\"server\",\"judge\":{\"required\":true},\"mcp\":{\"tool_name\":\"count\",\"arguments\":{}}," +
	"\"output_schema\":{\"type\":\"object\",\"properties\":{\"counted\":{\"type\":\"boolean\"}}}}}\n```\n\n" +
	"## Count what is expected\n\nIt said {{ steps.second.counted }}.\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"name\":\"third\",\"evidence_from\":\"server\",\"mcp\":{\"tool_name\":\"count\",\"arguments\":{},\"expected_result\":{\"counted\":true}}}}\n```\n\n" +
	"## Tell\n\nTell them {{ steps.third.counted }}.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"echo {{ steps.first.note }}\"}}}\n```\n"

// talk calls kairos_next, approves what is asked, and lets a model be satisfied. It
// returns the reply with all that was sent until then.
func (p *piped) talk(r *api.StepReply) (reply *api.StepReply, heard string) {
	p.t.Helper()
	p.call("kairos_next", p.next(r, ""), "")
	for {
		line, err := p.out.ReadBytes('\n')
		if err != nil {
			p.t.Fatalf("%v before a reply", err)
		}
		heard += string(line)
		var h pipedMessage
		if err := json.Unmarshal(line, &h); err != nil {
			p.t.Fatalf("%v in %.400s", err, line)
		}
		answer := ""
		switch {
		case h.Method == "elicitation/create":
			answer = filled(yes)
		case h.Method == "sampling/createMessage":
			answer = `{"role":"assistant","model":"m","content":{"type":"text","text":"{\"satisfied\":true,\"reason\":\"it counted\"}"}}`
		case strings.HasPrefix(h.Method, "notifications/"):
			continue
		default:
			reply = new(api.StepReply)
			if err := json.Unmarshal(h.Result.Structured, reply); err != nil {
				p.t.Fatalf("%v in %.400s", err, line)
			}
			return reply, heard
		}
		if _, err := fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", h.ID, answer); err != nil {
			p.t.Fatal(err)
		}
	}
}

// A field of a result that no step names reaches neither replies nor prompts
// nor later steps. A field that a step names does.
func TestAToolCannotInstructThroughWhatNoStepNames(t *testing.T) {
	t.Parallel()
	s, _ := withCounter(t, "")
	p := s.pipe(t, legacyEra, hasNothing)
	r := p.opens(injected)
	p.leave()
	if out, err := s.program("allow", r.RunID, "--yes").CombinedOutput(); err != nil {
		t.Fatalf("allow: %v\n%s", err, out)
	}
	p = s.pipe(t, legacyEra, `{"elicitation":{},"sampling":{}}`)
	r = p.step("kairos_begin", fmt.Sprintf(`{"uri":%q}`, r.CurrentStep.URI))
	all, outputs := "", []string{}
	for calls := 0; len(outputs) < 3; calls++ {
		reply, heard := p.talk(r)
		all += heard
		for _, done := range reply.Solved {
			outputs = append(outputs, string(done.Output))
		}
		if calls > 12 {
			t.Fatalf("the last of %d replies is %s: %s", calls, reply.ErrorCode, reply.Message)
		}
		if reply.CurrentStep.URI != "" {
			r = reply
		}
	}
	if _, said, found := strings.Cut(all, "AGENT"); found {
		t.Errorf("the words of the tool were passed on: AGENT%.600s", said)
	}
	if n := strings.Count(all, "sampling/createMessage"); n != 2 {
		t.Errorf("%d prompts, want two", n)
	}
	if !strings.Contains(outputs[0], `"digest":"sha256:`) || outputs[1] != `{"counted":true}` || outputs[2] != `{"counted":true}` {
		t.Errorf("outputs = %q, want a digest, then what the steps name", outputs)
	}
	for _, want := range []string{`\"steps.first.digest\">\"sha256:`, `\"steps.second.counted\">true<`, "step 4 needs {{ steps.first.note }}, which has no value"} {
		if !strings.Contains(all, want) {
			t.Errorf("no step says %s", want)
		}
	}
	p.leave()
	if shown, err := s.program("runs", "show", r.RunID).CombinedOutput(); err != nil || strings.Contains(string(shown), "AGENT") {
		t.Errorf("runs show: %v\n%s", err, shown)
	}
}
