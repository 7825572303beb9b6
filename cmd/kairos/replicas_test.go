package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/e2e/replicas"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// replicated is several replicas of the real program behind a proxy, which clients take
// for one server.
type replicated struct {
	*program
	*replicas.Set
}

func startReplicas(t *testing.T, n int, more string) *replicated {
	t.Helper()
	set := replicas.Start(t, n, replicas.Config{
		Program: func(args ...string) *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Args = append([]string{"kairos"}, args...)
			return cmd
		},
		Drivers: buildDrivers(t), Database: postgrestest.Start(t).Database(t), Wait: patient, More: more,
	})
	t.Cleanup(func() {
		if t.Failed() {
			for _, s := range set.Servers {
				t.Logf("%s: %s", s.Address, ending(s.Log()))
			}
		}
	})
	l := &listening{served: &served{t: t, dir: set.Servers[0].Dir}, url: set.URL}
	b := &program{listening: l, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	t.Cleanup(b.client.CloseIdleConnections)
	return &replicated{b, set}
}

// It has many processes and clients of its own, so no other test runs beside it.
func TestThreeReplicasAreOneServer(t *testing.T) {
	long(t)
	r := startReplicas(t, 3, "")
	t.Run("clients of both eras play", r.playsWithClients)
	t.Run("one is killed with open questions", r.losesNoQuestion)
	t.Run("an operator has one token", r.hasOneToken)
	t.Run("one that lets in other callers is refused", r.refusesOtherCallers)
	t.Run("keys are rotated", r.rotatesKeys)
}

// hasOneToken: the token beside the admin socket of any replica is good at all of them,
// because the proxy takes turns.
func (r *replicated) hasOneToken(t *testing.T) {
	for _, one := range r.Servers {
		token := operatorToken(t, filepath.Join(one.Dir, "admin.sock"))
		for range r.Servers {
			if a := r.do("POST", "/api/runs_list", `{}`, map[string]string{"Authorization": "Bearer " + token}); a.status != http.StatusOK {
				t.Errorf("runs_list with the token of %s = %d %s", one.Address, a.status, a.body)
			}
		}
	}
	if a := r.do("POST", "/api/runs_list", `{}`, nil); a.status != http.StatusUnauthorized {
		t.Errorf("runs_list without a token = %d %s", a.status, a.body)
	}
}

// refusesOtherCallers: a replica whose callers would have to say who they are does not join
// those that let everybody in.
func (r *replicated) refusesOtherCallers(t *testing.T) {
	one := r.Servers[0]
	text, err := os.ReadFile(filepath.Join(one.Dir, "kairos.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(one.Dir), "other") // beside the keys
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	config := strings.Replace(string(text), one.Address, "127.0.0.1:1", 1) + "auth: {enabled: true}\nhttp: {listen: \"127.0.0.1:0\"}\n"
	if err := os.WriteFile(filepath.Join(dir, "kairos.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := one.Command("serve", "--http")
	cmd.Env = append(cmd.Env, "KAIROS_CONFIG="+filepath.Join(dir, "kairos.yaml"))
	ends := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer ends.Stop()
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "has other settings of who may call") {
		t.Errorf("a replica with auth beside those without = %v: %s", err, out)
	}
}

// playsWithClients plays through a proxy that takes turns, so that every call and every
// answer arrives at another replica than the one before.
func (r *replicated) playsWithClients(t *testing.T) {
	t.Run("clients", func(t *testing.T) { // returns when all have ended
		for name, tc := range badClients {
			if tc.wait == short {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				inBothEras(t, func(t *testing.T, era string) { tc.play(&stage{r.visit(t, era, tc.can), t}) })
			})
		}
	})
	for i, n := range r.Served() {
		if n < 20 {
			t.Errorf("replica %d served %d requests of %v: the proxy does not take turns", i, n, r.Served())
		}
	}
}

// listed is what `kairos status` says of the replicas, by their addresses.
func (r *replicated) listed(t *testing.T) map[string]listedReplica {
	t.Helper()
	out, err := r.Servers[0].Command("status", "-o", "json").Output()
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	var report struct {
		Servers []listedReplica `json:"servers"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	all := map[string]listedReplica{}
	for _, s := range report.Servers {
		all[s.Address] = s
	}
	return all
}

type listedReplica struct {
	ID      string   `json:"id"`
	Address string   `json:"address"`
	PID     int      `json:"pid"`
	Unseen  float64  `json:"unseen_seconds"`
	Lost    bool     `json:"lost"`
	Reason  string   `json:"not_ready"`
	Drivers []any    `json:"drivers"`
	Jobs    []string `json:"jobs"`
}

// holder is the replica that holds the session of a client.
func (r *replicated) holder(t *testing.T, c *mcpClient) *replicas.Server {
	t.Helper()
	id, _, _ := strings.Cut(c.carrier.(*overHTTP).session, ".")
	for _, s := range r.Servers {
		if r.listed(t)[s.URL()].ID == id {
			return s
		}
	}
	t.Fatalf("no replica has the id %q: %v", id, r.listed(t))
	return nil
}

// losesNoQuestion: the replica that has asked is killed before the answer comes. A modern client answers
// at another one. A client of the older era continues its session there, is asked again, and
// the run continues.
func (r *replicated) losesNoQuestion(t *testing.T) {
	s := &stage{r.visit(t, legacyEra, hasForms), t}
	first := s.begun(s.document(personDoc), "")
	k := s.next(first, "")
	q := k.ask("elicitation/create")
	victim := r.holder(t, s.mcpClient)
	r.Pin(slices.Index(r.Servers, victim))
	m := &stage{r.visit(t, modernEra, hasForms), t}
	begun := m.begun(first.CurrentStep.URI, "")
	asked := m.next(begun, "")
	open := asked.ask("elicitation/create")
	r.Pin(-1)
	victim.Kill()

	asked.answer(open, filled(yes))
	m.proves(asked.step(), driver.ClientAttested)

	for range 3 { // whichever replica gets it
		res, err := s.carrier.(*overHTTP).send("", "", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.id, filled(yes)))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("an answer to what a replica that is gone has asked = %d, want 400", res.StatusCode)
		}
	}
	k = s.next(first, "")
	k.answer(k.ask("elicitation/create"), filled(yes))
	s.proves(k.step(), driver.ClientAttested)

	if gone := r.listed(t)[victim.URL()]; gone.ID == "" || gone.Lost {
		t.Errorf("status of a replica that was just killed = %+v, want that it is listed and not yet lost", gone)
	}
	victim.Start()
	victim.AwaitReady()
	for _, one := range r.Servers {
		if l := r.listed(t)[one.URL()]; l.PID != one.PID() || l.Unseen > 30 || l.Reason != "" || len(l.Drivers) < 12 {
			t.Errorf("status of %s = %+v, want process %d with its drivers", one.Address, l, one.PID())
		}
	}
	r.refusesForgery(t)
}

// refusesForgery sends what claims to come from a replica.
func (r *replicated) refusesForgery(t *testing.T) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Servers {
		req.Header.Set("Kairos-Passed-On", fmt.Sprintf("%s 203.0.113.7 %d AAAA", r.listed(t)[s.URL()].ID, time.Now().Unix()))
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("a request with a forged mark = %d, want 403", res.StatusCode)
		}
		req.Body = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	}
}

// rotatesKeys: a new key comes to the replicas one by one, while questions are open, and
// none is lost.
func (r *replicated) rotatesKeys(t *testing.T) {
	old, key := r.Key(), replicas.NewKey()
	s := &stage{r.visit(t, modernEra, hasForms), t}
	uri := s.document(personDoc)
	var open []*toolCall
	var questions []*posed
	ask := func() {
		t.Helper()
		k := s.next(s.begun(uri, ""), "")
		open, questions = append(open, k), append(questions, k.ask("elicitation/create"))
	}
	answer := func() {
		t.Helper()
		for i, k := range open {
			k.answer(questions[i], filled(yes))
			if a := s.attest(k.step()); !a.Verified {
				t.Errorf("a run whose question was open while keys were rotated: %+v", a)
			}
		}
		open, questions = nil, nil
	}
	holder := r.jobHolder(t)
	for _, keys := range [][]string{{old, key}, {key, old}, {key}} {
		if len(keys) == 1 {
			answer() // a key is removed when what it sealed has expired
		}
		r.SetKeys(keys...)
		for _, one := range r.Servers {
			ask()
			if err := one.Stop(); err != nil {
				t.Fatalf("%v\n%s", err, one.Log())
			}
			ask()
			one.Start()
			one.AwaitReady()
		}
		if len(keys) == 2 && keys[0] == key {
			answer()
		}
	}
	answer()
	if r.jobHolder(t) == holder {
		t.Errorf("replica %s does jobs of all after it was stopped", holder)
	}
	// A replica with a key of its own would ask what no other can continue.
	one := r.Servers[1]
	if err := one.Stop(); err != nil {
		t.Fatal(err)
	}
	r.SetKeys(replicas.NewKey(), key)
	one.Start()
	select {
	case <-one.Ended():
	case <-time.After(time.Minute):
		t.Fatal("a replica with a key that the others do not have is not refused")
	}
	if log := one.Log(); !strings.Contains(log, "has other keys for questions to clients: the first line of state.key in keys_dir") {
		t.Errorf("a replica with a key that the others do not have says:\n%s", ending(log))
	}
}

// jobHolder is the id of the replica that ends runs for all.
func (r *replicated) jobHolder(t *testing.T) (holder string) {
	t.Helper()
	eventually(t, "a replica ends runs for all", func() bool {
		for _, l := range r.listed(t) {
			if slices.Contains(l.Jobs, "runs") {
				holder = l.ID
			}
		}
		return holder != ""
	})
	return holder
}
