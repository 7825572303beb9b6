package director_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// payDoc is a step of which the agent chooses what is approved.
const payDoc = "# Pay\n\n## Pick\n\nfind it\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"name\":\"pick\",\"shell\":{\"cmd\":\"look\"}}}\n```\n\n" +
	"## Pay it\n\npay\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"name\":\"pay\",\"approval_mode\":\"user\",\"mcp\":{\"tool_name\":\"pay\",\"to\":\"mallory\",\"note\":\"{{ steps.pick.note }}\"}}}\n```\n"

// long begins a run whose approval is about a note of that many bytes, with a client that has forms.
func (w *world) long(doc string, bytes int) (uri string, shown *api.StepReply) {
	w.t.Helper()
	w.caller.Client = driver.Client{ElicitationForm: true}
	uris := w.mint(doc)
	return uris[1], w.next(uris[0], solve(w.begin(uris[0]), fmt.Sprintf(`{"ok":true,"note":%q}`, "BEGIN"+strings.Repeat("n", bytes)+"END")))
}

func messageOf(t *testing.T, a *director.Ask) string {
	t.Helper()
	var params struct{ Message string }
	if err := json.Unmarshal(a.Params, &params); err != nil {
		t.Fatal(err)
	}
	return params.Message
}

var pageAddress = regexp.MustCompile(`https://kairos\.example/approve/\S+`)

// A person is asked by form however much they are asked about.
func TestALongApprovalStaysInThePersonsForm(t *testing.T) {
	for name, tc := range map[string]struct {
		page  bool
		bytes int
	}{"with a page": {true, 33_000}, "without a page": {false, 33_000}, "much longer": {true, 100_000}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *choices) {
				if tc.page {
					hasPage(o)
				}
			})
			uri, shown := w.long(payDoc, tc.bytes)
			ask := w.ask(w.nextRound(uri, placeholder(shown)), "elicitation/create")
			message := messageOf(t, ask)
			for _, want := range []string{"mallory", "BEGINnnn", "nnnEND", "left out here", "does not show all"} {
				if !strings.Contains(message, want) {
					t.Errorf("the form lacks %q: %s", want, message)
				}
			}
			if len(message) > 5000 || ask.Linked {
				t.Errorf("the form has %d bytes, and can be answered by a link: %v", len(message), ask.Linked)
			}
			if link := pageAddress.FindString(message); (link != "") != tc.page || !tc.page && !strings.Contains(message, "`kairos runs show "+shown.RunID+" --json`") {
				t.Errorf("the form says nothing of where to read the whole: %s", message)
			} else if tc.page {
				w.onlyReads(shown, link, message)
			}
			line, err := w.Timeline(t.Context(), w.caller, runOf(shown))
			if err != nil || !slices.ContainsFunc(line.Moments, func(m archive.Moment) bool { return strings.Contains(m.Question, strings.Repeat("n", tc.bytes)+"END") }) {
				t.Errorf("runs show has not the whole (%v)", err)
			}
			no := w.reply(w.answer(ask, `{"action":"decline"}`))
			w.code(no, "USER_DECLINED")
			again := w.ask(w.nextRound(uri, placeholder(no)), "elicitation/create") // and not with a link
			w.code(w.reply(w.answer(again, `{"action":"accept","content":{"confirmation":"approved"}}`)), "")
		})
	}
}

// onlyReads checks the link of a form to the page that takes no answer.
func (w *world) onlyReads(shown *api.StepReply, link, message string) {
	w.t.Helper()
	secret := link[strings.LastIndexByte(link, '/')+1:]
	v, err := w.Approval(w.t.Context(), w.caller, runOf(shown), secret)
	if err != nil || !v.ReadOnly || v.State != approval.Open || !strings.Contains(string(v.Display), "nnnEND") || !strings.Contains(message, v.Digest) {
		w.t.Fatalf("the page is %s, read only %v, digest %s, %v; want the whole of %s", v.State, v.ReadOnly, v.Digest, err, message)
	}
	for _, decision := range []string{"approved", "rejected", "cancel"} {
		_, err := w.AnswerApproval(w.t.Context(), w.caller, runOf(shown), secret, approval.Answer{Decision: decision, Digest: v.Digest})
		if fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "only shows") {
			w.t.Errorf("%s by the link that takes no answer: %v", decision, err)
		}
	}
	if waits, err := w.Waiting(w.t.Context(), w.caller, runOf(shown), 1); err != nil || waits.ApprovalURL != "" || strings.Contains(waits.Message, "approval page") {
		w.t.Errorf("the agent gets the link %q: %s (%v)", waits.ApprovalURL, waits.Message, err)
	}
}

// A client that fails at a long form gets a short one, and a link only if it fails at that, too.
func TestAClientThatFailsAtALongFormGetsAShortOne(t *testing.T) {
	w := withPage(t, nil)
	uri, shown := w.long(payDoc, 8_000)
	ask := w.ask(w.nextRound(uri, placeholder(shown)), "elicitation/create")
	if whole := messageOf(t, ask); len(whole) < 8_000 {
		t.Fatalf("the first form has %d bytes, want the whole", len(whole))
	}
	failed := director.Continuation{Run: ask.Run, Seq: ask.Seq, Error: &driver.ClientError{Code: -32603, Message: "message too long"}}
	round, err := w.Continue(t.Context(), w.caller, failed)
	if err != nil {
		t.Fatal(err)
	}
	short := w.ask(round, "elicitation/create")
	if message := messageOf(t, short); len(message) > 5000 || !strings.Contains(message, "does not show all") {
		t.Errorf("the second form has %d bytes: %s", len(message), message)
	}
	failed.Seq = short.Seq
	round, err = w.Continue(t.Context(), w.caller, failed)
	if err != nil {
		t.Fatal(err)
	}
	w.code(w.reply(round), "WAITING_FOR_USER")
	if round.Reply.ApprovalURL == "" {
		t.Error("a client that cannot show forms at all has no link")
	}
}

// An answer in a form, however unusable, is not replaced by one that comes by a link.
func TestAnUnusableAnswerDoesNotLeadToALink(t *testing.T) {
	w := withPage(t, nil)
	uri, shown := w.long(payDoc, 10)
	round := w.nextRound(uri, placeholder(shown))
	for round.Ask != nil {
		round = w.answer(round.Ask, `{}`)
	}
	w.code(round.Reply, "APPROVAL_UNAVAILABLE")
	if round.Reply.ApprovalURL != "" || !strings.Contains(round.Reply.Message, "invalid") {
		t.Errorf("reply = %+v, want why, and no link", round.Reply)
	}
	w.ask(w.nextRound(uri, placeholder(round.Reply)), "elicitation/create") // is asked again
}
