package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/handover"
)

// Where runs stand when something dies: behind a step of the agent's, which is
// acknowledged, at one that is told in the name.
const firstDone = "# %s\n\n## First\n\nDo it.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"true\"}}}\n```\n\n"

var resumeDocs = map[string]string{
	"a step": firstDone + "## Second\n\nDo it.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"true\"}}}\n```\n",
	"an approval": firstDone +
		"## Second\n\nDo it.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"approval_mode\":\"user\",\"shell\":{\"cmd\":\"drop\"}}}\n```\n",
	"a question": firstDone + "## Second\n\nAsk.\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"user_input\":{\"prompt\":\"Go?\"}}}\n```\n",
}

const ranWell = `{"exit_code":0,"stdout":"s3cr3t","stderr":"","duration_seconds":0.1}`

// killed sends SIGKILL and waits.
func (s *served) killed() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = s.cmd.Wait() // it was killed
}

// again starts the server anew in the same folder.
func (b *program) again() *program {
	b.t.Helper()
	return programOf((&served{t: b.t, dir: b.dir}).startHTTP())
}

// handed waits until the handover file names the run and has the lines; it is
// written beside the calls.
func (s *served) handed(id string, lines ...string) {
	s.t.Helper()
	var content []byte
	eventually(s.t, "run "+id+" in the handover file", func() bool {
		content, _ = os.ReadFile(s.path("out/" + handover.Name))
		for _, line := range append(lines, "SESSION_ID: "+id) {
			if !bytes.Contains(content, []byte("\n"+line+"\n")) {
				return false
			}
		}
		return true
	})
	if bytes.Contains(content, []byte("s3cr3t")) {
		s.t.Errorf("evidence is handed over:\n%s", content)
	}
}

// halted is a run that stands at its second step when something dies.
type halted struct {
	from, to, at string
	client       *mcpClient
	reply        *api.StepReply // with the acknowledgement of the first step
	call         *toolCall      // that waits for an answer; nil: none
	question     *posed
}

// halt brings a run behind its first step and to what is told of the second.
func (b *program) halt(t *testing.T, h halted) halted {
	t.Helper()
	h.client = b.visit(t, h.from, hasForms)
	uri := b.mint(fmt.Sprintf(resumeDocs[h.at], fmt.Sprintf("%s: %s, %s to %s", strings.ReplaceAll(t.Name(), "/", " "), h.at, h.from, h.to)))[0]
	h.reply = h.client.submit(h.client.begun(uri, ""), "shell", ranWell).step()
	if h.reply.ProofHash == "" || h.reply.StepIndex != 2 {
		t.Fatalf("the first step: %+v", h.reply)
	}
	if h.at != "a step" {
		h.call = h.client.next(h.reply, "")
		h.question = h.call.ask("elicitation/create")
	}
	b.handed(h.reply.RunID, "step_index: 2", "state: "+map[bool]string{true: "asking", false: "open"}[h.call != nil])
	return h
}

// finish resumes the run through a new client and brings it to its end.
func (b *program) finish(t *testing.T, h halted) {
	t.Helper()
	s := &stage{b.visit(t, h.to, hasForms), t}
	r := s.begun(h.reply.CurrentStep.URI, fmt.Sprintf(`,"session_id":%q`, h.reply.RunID))
	if r.RunID != h.reply.RunID || r.StepIndex != 2 || r.ErrorCode != "" || r.Challenge.Nonce == h.reply.Challenge.Nonce {
		t.Errorf("%s, %s to %s: resumed at %+v, want the second step of run %s with a fresh nonce", h.at, h.from, h.to, r, h.reply.RunID)
		return
	}
	b.end(s, h.at, r)
}

// end plays the second step as it is and attests.
func (b *program) end(s *stage, at string, r *api.StepReply) {
	s.t.Helper()
	switch at {
	case "an approval":
		k := s.next(r, "")
		k.answer(k.ask("elicitation/create"), filled(yes))
		r = s.submit(k.step(), "shell", ranWell).step()
	case "a question":
		k := s.next(r, "")
		k.answer(k.ask("elicitation/create"), filled(yes))
		r = k.step()
	default:
		r = s.submit(r, "shell", ranWell).step()
	}
	s.code(r, "")
	if a := s.attest(r); !a.Verified {
		s.t.Errorf("%s: %s", at, a.Message)
	}
}

// After a kill over HTTP, at any point of a run and for any client that comes
// back, the run continues after the last acknowledged step.
func TestRunsContinueOverHTTPWhateverDies(t *testing.T) {
	long(t)
	t.Parallel()
	for dies, does := range map[string]struct{ client, server bool }{
		"the client": {client: true}, "the server": {server: true}, "both": {client: true, server: true},
	} {
		t.Run(dies, func(t *testing.T) {
			t.Parallel()
			b := withShippedDrivers(t, "handover: {dir: out}\n")
			var all []halted
			for at := range resumeDocs {
				for _, from := range []string{legacyEra, modernEra} {
					for _, to := range []string{legacyEra, modernEra} {
						all = append(all, b.halt(t, halted{from: from, to: to, at: at}))
					}
				}
			}
			for _, h := range all {
				if does.client && h.call != nil {
					h.call.leave()
				}
			}
			if does.server {
				b.killed()
				b = b.again()
			}
			for _, h := range all {
				if does.server && !does.client && h.from == modernEra && h.to == modernEra && h.call != nil {
					b.answerOld(t, h)
					continue
				}
				b.finish(t, h)
			}
			eventually(t, "the handover file to go with the last run", func() bool {
				_, err := os.Stat(b.path("out/" + handover.Name))
				return os.IsNotExist(err)
			})
		})
	}
}

// answerOld: a client of 2026-07-28 that was asked by the server before it was
// killed simply answers the new one.
func (b *program) answerOld(t *testing.T, h halted) {
	t.Helper()
	h.client = b.visit(t, modernEra, h.client.can)
	h.call.mcpClient = h.client
	h.call.answer(h.question, filled(yes))
	r := h.call.step()
	s := &stage{h.client, t}
	s.code(r, "")
	if h.at == "an approval" {
		r = s.submit(r, "shell", ranWell).step()
		s.code(r, "")
	}
	if a := s.attest(r); !a.Verified {
		t.Errorf("%s answered after the restart: %s", h.at, a.Message)
	}
}

// Nobody calls for a run whose time has passed; the server ends it, takes it out
// of the handover file, and removes it when it was kept long enough.
func TestAServerEndsAndRemovesRunsByItself(t *testing.T) {
	long(t)
	t.Parallel()
	s := newServed(t)
	s.lock()
	s.write("one.md", oneCommand)
	kairos := func(args ...string) string {
		t.Helper()
		cmd := s.program(args...)
		cmd.Dir = s.dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("kairos %s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	var minted api.MintReply
	if err := json.Unmarshal([]byte(kairos("mint", "one.md", "-o", "json")), &minted); err != nil {
		t.Fatal(err)
	}
	s.configure("handover: {dir: out}\n")
	var begun api.StepReply
	if err := json.Unmarshal([]byte(kairos("runs", "begin", minted.Items[0].URI, "-o", "json")), &begun); err != nil {
		t.Fatal(err)
	}
	s.handed(begun.RunID)

	s.configure("handover: {dir: out}\nrun: {ttl: 1ns, keep: 1h}\n")
	s.start()
	s.client.search("anything")
	s.logs("runs whose time has passed were ended", 1)
	eventually(t, "the handover file to go with its run", func() bool {
		_, err := os.Stat(s.path("out/" + handover.Name))
		return os.IsNotExist(err)
	})
	if out := kairos("runs", "list", "--state", "ended"); !strings.Contains(out, begun.RunID) {
		t.Errorf("the run is not listed as ended:\n%s", out)
	}

	s.configure("run: {keep: 1ns}\n")
	other := &served{t: t, dir: s.dir}
	other.start()
	other.client.search("anything")
	other.logs("removed=1", 1)
	if out := kairos("runs", "list", "--all"); strings.Contains(out, begun.RunID) {
		t.Errorf("the run is still there:\n%s", out)
	}
}
