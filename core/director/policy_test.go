package director_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/run"
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

func TestAnObservationNeedsTheBoundaryOfThePolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		declared, known driver.Boundary
		want            string
		looks           int
	}{
		"too weak as declared":  {driver.SameAccount, "", "OBSERVATION_UNAVAILABLE", 0}, // passed over
		"weaker than declared":  {driver.Remote, driver.SameAccount, "EVIDENCE_NOT_ACCEPTED", 1},
		"strong enough":         {driver.SeparateAccount, "", "", 1},
		"stronger than demand":  {driver.Remote, "", "", 1},
		"nothing was declared":  {"", driver.Remote, "OBSERVATION_UNAVAILABLE", 0},
		"an unknown boundary":   {"moon", "", "OBSERVATION_UNAVAILABLE", 0},
		"as weak as is allowed": {driver.Remote, driver.SeparateAccount, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := withSeer(t)
			policed(t, w, s, `{when: 'challenge.type == "mcp"', boundary: separate-account}`)
			w.drivers.boundary, s.boundary = tc.declared, tc.known
			uri := w.mint(fromWhom("server"))[0]
			r := w.next(uri, placeholder(w.begin(uri)))
			w.code(r, tc.want)
			if s.looked != tc.looks {
				t.Errorf("looked %d times, want %d", s.looked, tc.looks)
			}
			if proofs := w.state(runOf(r)).Proofs; (len(proofs) == 1) != (tc.want == "") {
				t.Errorf("proofs = %+v", proofs)
			}
			passed := 0
			for _, e := range w.inOrder(runOf(r)) {
				if e.Kind == run.RouteClosed && e.Attempt.Untried && e.Attempt.Via == "seer" {
					passed++
				}
			}
			if (passed > 0) != (tc.looks == 0) {
				t.Errorf("the run records %d times that the route was passed over", passed)
			}
		})
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
