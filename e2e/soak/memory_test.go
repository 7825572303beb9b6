package soak_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/e2e/play"
)

// How many clients play at a time, and the memory that the server may take, without its
// drivers.
const (
	memoryClients = 32
	memoryAllowed = 150 // MB
	memoryGrowth  = 10  // MB, from one half of the runs to the end of the others
)

func memoryRuns() int64 {
	switch {
	case os.Getenv("KAIROS_SOAK") != "":
		return 100_000
	case testing.Short():
		return 300
	}
	return 600
}

// TestTheServerStaysSmall: many runs of many clients leave nothing in memory.
func TestTheServerStaysSmall(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("no figures of processes here")
	}
	s := play.NewServer(t, bin)
	s.Start()
	t.Cleanup(s.Kill)
	s.AwaitReady()
	uris := make([]string, 50)
	for i := range uris {
		uris[i] = minted(t, s, i)
	}
	half := memoryRuns() / 2
	playRuns(t, s, uris, half)
	between := residentMB(t, s.PID())
	playRuns(t, s, uris, half)
	after := residentMB(t, s.PID())
	t.Logf("%d runs: %.0f MB, twice as many: %.0f MB", half, between, after)
	if after > memoryAllowed || after > between+memoryGrowth {
		t.Errorf("the server has %.0f MB after %d runs and %.0f after twice as many, want at most %d and no growth above %d",
			between, half, after, memoryAllowed, memoryGrowth)
	}
}

func minted(t *testing.T, s *play.Server, i int) string {
	t.Helper()
	doc := fmt.Sprintf("# Memory of server %d\n", i)
	for step := range 5 {
		doc += fmt.Sprintf("\n## Step %d\n\nSay it.\n\n```json\n{\"challenge\":{\"type\":\"comment\",\"comment\":{\"min_length\":%d}}}\n```\n", step+1, 10+i)
	}
	var reply api.MintReply
	called(t, s, "kairos_mint/raw?llm_model_id=soak&force=true", "text/markdown", []byte(doc), &reply)
	return reply.Items[0].URI
}

// playRuns plays whole runs of all clients.
func playRuns(t *testing.T, s *play.Server, uris []string, runs int64) {
	t.Helper()
	var played atomic.Int64
	var clients sync.WaitGroup
	for range memoryClients {
		clients.Go(func() {
			for i := played.Add(1); i <= runs && !t.Failed(); i = played.Add(1) {
				playRun(t, s, uris[int(i)%len(uris)])
			}
		})
	}
	clients.Wait()
}

// unrepeated is a text of so many words, none of which comes twice.
func unrepeated(words int) string {
	text := make([]string, words)
	for i := range text {
		text[i] = rand.Text()
	}
	return strings.Join(text, " ")
}

func playRun(t *testing.T, s *play.Server, uri string) {
	call := func(tool string, arguments map[string]any, reply any) {
		text, err := json.Marshal(arguments)
		if err != nil {
			t.Error(err)
			return
		}
		called(t, s, tool, "application/json", text, reply)
	}
	var found api.SearchReply
	call("kairos_search", map[string]any{"query": "memory of server"}, &found)
	var open api.StepReply
	call("kairos_begin", map[string]any{"uri": uri}, &open)
	for open.Challenge.Nonce != "" && !t.Failed() {
		solution := map[string]any{
			"type": "comment", "nonce": open.Challenge.Nonce, "proof_hash": open.Challenge.ProofHash,
			"comment": map[string]any{"text": "The memory of the server does not grow: " + unrepeated(30)},
		}
		next := api.StepReply{}
		call("kairos_next", map[string]any{"uri": open.CurrentStep.URI, "run_id": open.RunID, "solution": solution}, &next)
		if next.ErrorCode != "" {
			t.Errorf("kairos_next: %s: %s", next.ErrorCode, next.Message)
			return
		}
		open = next
	}
	var rated api.AttestReply
	call("kairos_attest", map[string]any{"uri": uri, "run_id": open.RunID, "outcome": "success", "message": "It went well."}, &rated)
}

func called(t *testing.T, s *play.Server, path, kind string, body []byte, reply any) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Address+"/api/"+path, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Content-Type", kind)
	res, err := soakClient.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(reply); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, %v\n%s", path, res.Status, err, s.Lately())
	}
}

var soakClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: memoryClients}}

// residentMB is the resident memory of a process.
func residentMB(t *testing.T, pid int) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	var kib float64
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			if _, err := fmt.Sscan(value, &kib); err != nil {
				t.Fatal(err)
			}
		}
	}
	return kib / 1024
}
