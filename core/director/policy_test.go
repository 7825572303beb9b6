package director_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// policed gives the world, in which the seer looks first, a policy.
func policed(t *testing.T, w *world, s *seer, entries ...string) {
	t.Helper()
	all := []driver.Descriptor{seerDescriptor}
	for _, d := range descriptors {
		all = append(all, d)
	}
	yaml := strings.ReplaceAll(string(decision.Default().YAML), "evidence:\n", "evidence:\n      - {via: seer, when: '!solution.supplied'}\n")
	if len(entries) > 0 {
		yaml += "\npolicy:\n  - " + strings.Join(entries, "\n  - ") + "\n"
	}
	tree, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(yaml)}, all)
	if err != nil {
		t.Fatal(err)
	}
	w.setups.replace(drivers.Setup{Drivers: seeing{w.drivers, s}, Tree: tree})
}

func TestAPolicyDemandsMoreThanTheProtocol(t *testing.T) {
	w, s := withSeer(t)
	policed(t, w, s, `{name: acts are seen, when: 'step.name == "act" && protocol.space == "user:test:me"', evidence_from: [server-observed]}`)
	uri := w.mint(fromWhom("anyone"))[0]
	open := w.begin(uri)
	r := w.next(uri, solve(open, `{"ok":true}`))
	w.code(r, "EVIDENCE_NOT_ACCEPTED")
	if *r.RetryCount != 0 || !strings.Contains(r.Message, "counts only if KAIROS observes it itself") {
		t.Errorf("reply = %+v, want it uncounted", r)
	}
	done := w.next(uri, placeholder(open))
	if w.code(done, ""); len(done.Solved) != 1 || done.Solved[0].Via != "seer" {
		t.Errorf("solved = %+v, want what the server saw", done.Solved)
	}
}

func TestAPolicyMayTakeTheAgentsWord(t *testing.T) {
	w, s := withSeer(t)
	policed(t, w, s, `{evidence_from: [agent-reported, client-attested]}`)
	uri := w.mint(fromWhom("anyone"))[0]
	open := w.begin(uri)
	done := w.next(uri, solve(open, `{"ok":true}`))
	if len(done.Solved) != 1 || done.Solved[0].Provenance != driver.AgentReported || s.looked != 0 {
		t.Errorf("solved = %+v, looked %d times; want the agent's report", done.Solved, s.looked)
	}
}

func TestWhatCannotCountIsNotMinted(t *testing.T) {
	w, s := withSeer(t)
	policed(t, w, s, `{name: people decide, when: 'step.name == "act"', evidence_from: [client-attested]}`)
	_, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: fromWhom("server"), ModelID: "m"})
	for _, want := range []string{`"Act"`, "policy[0] (people decide), line", "takes evidence only from server", "change evidence_from of the step, or ask the operator"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Mint: %v, want %q in it", err, want)
		}
	}
	linted, err := w.Lint(t.Context(), fromWhom("server"))
	found := linted.Findings
	if err != nil || len(found) == 0 || found[0].Severity == driver.SeverityWarning || !strings.Contains(found[0].Message, "people decide") {
		t.Errorf("Lint = %v, %v", found, err)
	}
	_, err = w.Mint(t.Context(), w.caller, api.MintRequest{Document: "# Free\n\n## Act\n\nJust do it.\n", ModelID: "m"})
	if err == nil || !strings.Contains(err.Error(), "the step has no challenge") {
		t.Errorf("Mint of a step without a challenge: %v", err)
	}
	w.mint(fromWhom("person")) // both take a person's answer
}

func TestAStepThatThePolicyMadeImpossibleSaysSo(t *testing.T) {
	w, s := withSeer(t)
	uri, free := w.mint(fromWhom("server"))[0], w.mint("# Free\n\n## Act\n\nJust do it.\n")[0]
	open, openFree := w.begin(uri), w.begin(free)
	policed(t, w, s, `{name: people decide, evidence_from: [client-attested]}`)
	for range 4 {
		for _, r := range []*api.StepReply{
			w.next(uri, placeholder(open)), w.next(uri, solve(open, `{"ok":true}`)),
			w.next(free, solve(openFree, `{"ok":true}`)),
		} {
			w.code(r, "POLICY_CONFLICT")
			if r.RetryCount != nil && *r.RetryCount != 0 || !strings.Contains(r.Message, "policy[0] (people decide)") {
				t.Errorf("reply = %+v, want it uncounted and the entry", r)
			}
		}
	}
	if s.looked != 0 {
		t.Errorf("looked %d times", s.looked)
	}
	policed(t, w, s)
	w.code(w.next(uri, placeholder(open)), "") // the operator took it back
}
