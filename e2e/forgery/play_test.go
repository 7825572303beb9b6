package forgery_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/kairos-mcp/kairos/e2e/forgery"
	"github.com/kairos-mcp/kairos/e2e/programs"
)

// bin has the programs.
var bin string

func TestMain(m *testing.M) {
	if mode := os.Getenv("FORGERY_TOOL"); mode != "" {
		if err := serveTool(mode); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, isNew, err := programs.Find(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = dir
	code := m.Run()
	if isNew {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// honest are procedures that are followed as they are, on code that passes its test.
var honest = map[string]struct {
	procedure procedure
	done      string
	events    int
}{
	"booking":          {booking, "", 1},
	"check and deploy": {checkAndDeploy, "checked, deployed to staging", 0},
	"deploy":           {deploy, "deployed to staging", 0},
	"test":             {testRun, "", 0},
}

// TestAnHonestRecordIsAccepted is the other side: an attacker must not fail because
// nothing is ever accepted.
func TestAnHonestRecordIsAccepted(t *testing.T) {
	for name, h := range honest {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range forgery.Records {
				t.Run(string(r.Record), func(t *testing.T) {
					x := newTrial(t, bin, r.Record)
					x.write("work/code.txt", workspace["expected.txt"])
					if !x.all(x.opened(h.procedure), h.procedure).accepted() {
						t.Error("the record is not accepted")
					}
					if x.done() != h.done || len(x.events()) != h.events {
						t.Errorf("done %q, %d events; want %q and %d", x.done(), len(x.events()), h.done, h.events)
					}
					if r.Record == forgery.Observed && x.calls > 0 {
						t.Errorf("the agent called tools %d times itself", x.calls)
					}
					// Commands change something, so each is approved where KAIROS runs it.
					want := 0
					for _, st := range h.procedure.steps {
						if st.approved || st.typ == "shell" && r.Record == forgery.Observed {
							want++
						}
					}
					if len(x.person.asked) != want {
						t.Errorf("the person was asked %d times, want %d: %q", len(x.person.asked), want, x.person.asked)
					}
				})
			}
		})
	}
}

// An attempt is an attack as it is made: it says whether the record was accepted
// at its end, and whether what the record claims is so, by facts outside KAIROS.
type attempt func(x *trial) (accepted, happened bool)

// TestAttacks plays each attack on each kind of record and compares the outcome
// with the one that was expected beforehand.
func TestAttacks(t *testing.T) {
	all := maps.Clone(attempts)
	maps.Copy(all, heldOut)
	maps.Copy(all, fromOutside)
	var played scores
	t.Run("all", func(t *testing.T) {
		for _, a := range forgery.All() {
			made, ok := all[a.Name]
			if !ok {
				t.Errorf("nobody plays %q", a.Name)
				continue
			}
			t.Run(strings.ReplaceAll(a.Name, " ", "_"), func(t *testing.T) {
				t.Parallel()
				for i, r := range forgery.Records {
					t.Run(string(r.Record), func(t *testing.T) {
						x := newTrial(t, bin, r.Record)
						accepted, happened := made(x)
						outcome := forgery.Fails
						if accepted && !happened {
							outcome = forgery.Wins
						}
						played.add(a.Name, i, outcome)
						if outcome != a.Expected[i] {
							t.Errorf("the attacker %s (accepted: %v, as it claims: %v), want %s", outcome, accepted, happened, a.Expected[i])
						}
					})
				}
			})
		}
	})
	for name := range all {
		if !slices.ContainsFunc(forgery.All(), func(a forgery.Attack) bool { return a.Name == name }) {
			t.Errorf("%q is played and not listed", name)
		}
	}
	fmt.Print(played.table())
}

// scores are the outcomes of the attacks that were played.
type scores struct {
	mu  sync.Mutex // guards all
	all map[string]*[4]forgery.Outcome
}

func (s *scores) add(name string, record int, o forgery.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[string]*[4]forgery.Outcome)
	}
	if s.all[name] == nil {
		s.all[name] = new([4]forgery.Outcome)
	}
	s.all[name][record] = o
}

// table lists who won, for the terminal.
func (s *scores) table() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nThe attacker")
	for _, r := range forgery.Records {
		fmt.Fprintf(w, "\t%s", r.Record)
	}
	fmt.Fprintln(w)
	for _, a := range forgery.All() {
		outcomes, ok := s.all[a.Name]
		if !ok {
			continue
		}
		fmt.Fprint(w, a.Name)
		for _, o := range outcomes {
			fmt.Fprintf(w, "\t%s", cmp.Or(o, "not played"))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // to memory
	return b.String()
}
