package storetest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

var runCases = map[string]func(*testing.T, Runs){
	"the caller may change what a read has returned":       chainIsCopied,
	"a run is created with its events":                     createdWithEvents,
	"a run is read as it was saved":                        runRoundTrip,
	"an id is created once":                                createTwice,
	"a missing run is not found":                           runNotThere,
	"one of many writers wins a revision":                  oneOfManyWritersWins,
	"any sequence of saves is the last one that won":       anySequenceOfSaves,
	"a failing save leaves nothing":                        failingSaveLeavesNothing,
	"a failing save does not harm others":                  failingSaveHarmsNobody,
	"a run is read again only if it has changed":           readIfChanged,
	"a read says what nobody allowed or declined":          absentIsSaid,
	"what is past is not part of the run":                  pastIsElsewhere,
	"events between two revisions":                         eventsBetween,
	"events are read in order":                             eventsInOrder,
	"a reply is recorded for each run and key":             recordedReplies,
	"open runs of a protocol, last changed first":          openByChange,
	"open runs of a connection, last begun first":          openByConnection,
	"open runs among a principal's last, last begun first": lastOpen,
	"a cancelled write changes nothing":                    cancelledWrites,
	"a cancellation under way is all or nothing":           cancelledUnderWay,
	"a write is visible to the next read of every process": writesAreVisible,
	"a run cannot be saved before it was created":          saveBeforeCreate,
	"a save keeps rows that it does not mention":           savedTwice,
}

func runRoundTrip(t *testing.T, s Runs) {
	c := NewChain(mine, "Round trip", "One", "Two")
	want := NewRun("somebody ünïcödé", c)
	want.Step.Declines = map[string]string{"evidence": "elicitation"}
	want.Step.Question = &run.Question{
		Seq: 3, Input: driver.Input{ID: "evidence", Kind: driver.KindEvidence, Description: "Größe? 日本語 \x00"},
		Via: "elicitation", AskedAt: epoch, Ask: driver.ClientRequest{Method: "elicitation/create"},
	}
	want.State = run.Asking
	want.Input = json.RawMessage(`{"big":12345678901234567890,"html":"<a>&"}`)
	mustCreateRun(t, s, runs.Save{Run: want}, c)
	want.Revision = 1
	for range 3 {
		got := mustRun(t, s, want.ID)
		if diff := cmp.Diff(want, got, rawJSON); diff != "" {
			t.Fatalf("Run at revision %d (-want +got):\n%s", want.Revision, diff)
		}
		got.Seq++
		got.UpdatedAt = got.UpdatedAt.Add(time.Minute)
		mustSaveRun(t, s, runs.Save{Run: got})
		want = got
		want.Revision++
	}
}

// rawJSON compares raw JSON by content, because encoders may escape differently.
var rawJSON = cmp.Transformer("JSON", func(raw json.RawMessage) string {
	var b []byte
	b, _ = json.Marshal(raw) // compacts and escapes; a failure compares as empty
	return string(b)
})

func createTwice(t *testing.T, s Runs) {
	c := NewChain(mine, "Twice", "One")
	r := mustCreate(t, s, "first", c)
	again := NewRun("second", c)
	again.ID = r.ID
	wantCode(t, "CreateRun(again)", s.CreateRun(t.Context(), runs.Save{Run: again}, c), fault.Conflict)
	if got := mustRun(t, s, r.ID); got.Principal != "first" {
		t.Errorf("Run = principal %q, want first", got.Principal)
	}
}

func createdWithEvents(t *testing.T, s Runs) {
	c := NewChain(mine, "Begun", "One")
	r := NewRun("me", c)
	save := runs.Save{
		Run:      r,
		Events:   []run.Event{{Kind: run.Needed, Run: r.ID, Step: 1, At: epoch, Reason: "first"}, {Kind: run.Asked, Run: r.ID, Step: 1, At: epoch, Reason: "second"}},
		Recorded: []runs.Recorded{{Key: "seq:1", Payload: "p", Reply: []byte(`{}`)}},
	}
	mustCreateRun(t, s, save, c)
	wantReasons(t, s, r.ID, "first", "second")
	wantRecorded(t, s, r.ID, "seq:1", true)
}

func runNotThere(t *testing.T, s Runs) {
	_, err := s.Run(t.Context(), "nothing")
	wantCode(t, "Run", err, fault.NotFound)
	_, err = s.Pinned(t.Context(), "nothing")
	wantCode(t, "Pinned", err, fault.NotFound)
	_, err = s.Events(t.Context(), "nothing")
	wantCode(t, "Events", err, fault.NotFound)
	wantRecorded(t, s, "nothing", "key", false)
	q := runs.OpenQuery{Principal: "nobody", Spaces: []string{mine}, Chain: "nothing", Limit: 5}
	wantRead[[]run.Summary](t, "OpenRuns", nil, cmpopts.EquateEmpty())(s.OpenRuns(t.Context(), q))
	for _, connection := range []string{"nothing", ""} {
		wantRead[[]run.Summary](t, "OpenOnConnection", nil, cmpopts.EquateEmpty())(s.OpenOnConnection(t.Context(), q, connection))
	}
}

func saveBeforeCreate(t *testing.T, s Runs) {
	r := NewRun("somebody", NewChain(mine, "Not created", "One"))
	wantCode(t, "SaveRun", s.SaveRun(t.Context(), runs.Save{Run: r}), fault.NotFound)
	_, err := s.Run(t.Context(), r.ID)
	wantCode(t, "Run", err, fault.NotFound)
}

func readIfChanged(t *testing.T, s Runs) {
	r := mustCreate(t, s, "somebody", NewChain(mine, "Read again", "One"))
	if got, err := s.RunUnless(t.Context(), r); got.Changed || err != nil || got.Run.ID != "" {
		t.Errorf("RunUnless(the revision it has) = %+v, %v, want nothing", got, err)
	}
	mustSaveRun(t, s, runs.Save{Run: r})
	for _, known := range []int64{0, r.Revision, r.Revision + 2} {
		got, err := s.RunUnless(t.Context(), run.Run{ID: r.ID, Revision: known})
		if err != nil || !got.Changed || got.Run.Revision != r.Revision+1 || got.Absent != (runs.Absent{}) {
			t.Errorf("RunUnless(revision %d) = %+v, %v, want revision %d and nothing absent", known, got, err, r.Revision+1)
		}
	}
	_, err := s.RunUnless(t.Context(), run.Run{ID: "nothing", Revision: 1})
	wantCode(t, "RunUnless(nothing)", err, fault.NotFound)
}

// pastIsElsewhere: a save neither stores nor needs what is past, so its cost does
// not grow with the run.
func pastIsElsewhere(t *testing.T, s Runs) {
	r := mustCreate(t, s, "somebody", NewChain(mine, "Past", "One"))
	want := r
	r.Past = run.Past{Nonces: []string{"used"}, Evidence: []*run.Evidence{{Output: json.RawMessage(`1`)}}}
	mustSaveRun(t, s, runs.Save{Run: r})
	want.Revision++
	wantSame(t, "Run", want, mustRun(t, s, r.ID), rawJSON)
}

func eventsBetween(t *testing.T, s Runs) {
	c := NewChain(mine, "Between", "One")
	r, other := mustCreate(t, s, "somebody", c), mustCreate(t, s, "somebody", c) // both at revision 1
	for revision := int64(2); revision <= 5; revision++ {
		for _, at := range []*run.Run{&r, &other} {
			mustSaveRun(t, s, runs.Save{Run: *at, Events: []run.Event{{Kind: run.Refused, Reason: fmt.Sprint(at.ID, revision)}}})
			at.Revision++
		}
	}
	for span, want := range map[[2]int64][]int64{{0, 1}: nil, {0, 3}: {2, 3}, {2, 4}: {3, 4}, {4, 5}: {5}, {4, 100}: {5}, {5, 5}: nil, {0, math.MaxInt64}: {2, 3, 4, 5}} {
		events, err := s.EventsBetween(t.Context(), r.ID, span[0], span[1])
		var texts []string
		for _, revision := range want {
			texts = append(texts, fmt.Sprint(r.ID, revision))
		}
		if err != nil || !slices.Equal(reasons(events), texts) {
			t.Errorf("EventsBetween%v = %q, %v, want %q", span, reasons(events), err, texts)
		}
	}
	if events, err := s.EventsBetween(t.Context(), "nothing", 0, 1); err != nil || len(events) != 0 {
		t.Errorf("EventsBetween(no run) = %v, %v, want none, nil", events, err)
	}
}

func eventsInOrder(t *testing.T, s Runs) {
	r := mustCreate(t, s, "somebody", NewChain(mine, "Events", "One"))
	wantReasons(t, s, r.ID)
	var want []run.Event
	for revision := range 12 {
		var events []run.Event
		for i := range revision % 4 * 4 {
			events = append(events, run.Event{
				Kind: run.Asked, Run: r.ID, Step: i, At: epoch.Add(time.Duration(revision) * time.Second),
				Reason: fmt.Sprintf("%d/%d — ü", revision, i), Walk: json.RawMessage(`{"rule":1}`),
				Answer: &driver.Answer{InputID: "evidence", Value: json.RawMessage(`{"a":[1,2]}`)},
			})
		}
		mustSaveRun(t, s, runs.Save{Run: r, Events: events})
		want = append(want, events...)
		r = mustRun(t, s, r.ID)
	}
	wantEvents(t, s, r.ID, want...)
}

func recordedReplies(t *testing.T, s Runs) {
	c := NewChain(mine, "Recorded", "One")
	r, other := mustCreate(t, s, "somebody", c), mustCreate(t, s, "other", c)
	save := func(replies ...runs.Recorded) {
		t.Helper()
		mustSaveRun(t, s, runs.Save{Run: r, Recorded: replies})
		r = mustRun(t, s, r.ID)
	}
	want := func(id run.ID, key, payload, reply string) {
		t.Helper()
		got, ok, err := s.Recorded(t.Context(), id, key)
		wanted := runs.Recorded{Key: key, Payload: payload, Reply: json.RawMessage(reply)}
		if err != nil || !ok || !cmp.Equal(wanted, got) {
			t.Errorf("Recorded(%q) = %v, %t, %v, want %v", key, got, ok, err, wanted)
		}
	}
	save(runs.Recorded{Key: "nonce:1", Payload: "p1", Reply: json.RawMessage(`{"n":1}`)},
		runs.Recorded{Key: "seq:1", Payload: "p2", Reply: json.RawMessage(`"ü"`)})
	save(runs.Recorded{Key: "nonce:2", Payload: "p3", Reply: json.RawMessage(`[]`)})
	save()
	want(r.ID, "nonce:1", "p1", `{"n":1}`)
	want(r.ID, "seq:1", "p2", `"ü"`)
	want(r.ID, "nonce:2", "p3", `[]`)
	// A nonce stays valid after a failed submission; its next reply counts.
	save(runs.Recorded{Key: "nonce:1", Payload: "p4", Reply: json.RawMessage(`{"n":4}`)})
	want(r.ID, "nonce:1", "p4", `{"n":4}`)
	wantRecorded(t, s, other.ID, "nonce:1", false)
}

// openRuns stores runs of one protocol in every state, last changed in the order of
// their begin, among runs that no query for them may find.
func openRuns(t *testing.T, s Runs) (q runs.OpenQuery, live []run.Summary) {
	t.Helper()
	c := NewChain(mine, "Open", "One", "Two")
	for i, state := range []run.State{run.Open, run.Asking, run.Complete, run.Closed, run.Ended, run.Open} {
		r := mustCreate(t, s, "somebody", c)
		r.State = state
		r.Step.Index = 1 + i%3
		r.UpdatedAt = epoch.Add(time.Duration(i) * time.Minute)
		mustSaveRun(t, s, runs.Save{Run: r})
		if state.Live() {
			live = append(live, r.Summary())
		}
	}
	mustCreate(t, s, "other", c)
	mustCreate(t, s, "somebody", NewChain(mine, "Another protocol", "One"))
	left := c
	left.Space = "group:left"
	mustCreate(t, s, "somebody", left)
	return runs.OpenQuery{Principal: "somebody", Spaces: []string{"user:elsewhere", mine}, Chain: c.ID, Limit: 10}, live
}

func openByChange(t *testing.T, s Runs) {
	q, live := openRuns(t, s)
	first, second, third, last := live[0], live[1], live[2], live[3]
	wantRead(t, "OpenRuns", []run.Summary{last, third, second, first})(s.OpenRuns(t.Context(), q))
	q.Limit = 2
	wantRead(t, "OpenRuns(2)", []run.Summary{last, third})(s.OpenRuns(t.Context(), q))
	r := mustRun(t, s, first.ID)
	r.UpdatedAt = epoch.Add(time.Hour)
	mustSaveRun(t, s, runs.Save{Run: r})
	wantRead(t, "OpenRuns(2) after a change", []run.Summary{r.Summary(), last})(s.OpenRuns(t.Context(), q))
}

func openByConnection(t *testing.T, s Runs) {
	q, live := openRuns(t, s)
	first, second, third, last := live[0], live[1], live[2], live[3]
	find := func(connection string, want ...run.Summary) {
		t.Helper()
		wantRead(t, fmt.Sprintf("OpenOnConnection(%q)", connection), want, cmpopts.EquateEmpty())(s.OpenOnConnection(t.Context(), q, connection))
	}
	find("connection-1", last, third, second, first)
	find("connection-2")
	find("")
	for _, connection := range []string{"connection-2", ""} { // resumed there
		r := mustRun(t, s, second.ID)
		r.Connection = connection
		mustSaveRun(t, s, runs.Save{Run: r})
		second = r.Summary()
		find("connection-1", last, third, first)
		find("")
		if connection != "" {
			find(connection, second)
		}
	}
	q.Limit = 1
	find("connection-1", last)
}

func lastOpen(t *testing.T, s Runs) {
	q, live := openRuns(t, s)
	another, err := s.OpenRuns(t.Context(), runs.OpenQuery{Principal: q.Principal, Spaces: q.Spaces, Chain: NewChain(mine, "Another protocol", "One").ID, Limit: 1})
	if err != nil || len(another) != 1 {
		t.Fatalf("OpenRuns = %v, %v, want 1 run, nil", another, err)
	}
	first, second, third, last := live[0], live[1], live[2], live[3]
	q.Chain = ""
	for limit, want := range map[int][]run.Summary{
		10: {another[0], last, third, second, first},
		4:  {another[0], last}, // the principal's last four, of which one is in a space that is not asked for, and one has ended
		1:  nil,
	} {
		q.Limit = limit
		wantRead(t, fmt.Sprintf("LastOpen(%d)", limit), want, cmpopts.EquateEmpty())(s.LastOpen(t.Context(), q))
	}
	q.Principal = "nobody"
	wantRead[[]run.Summary](t, "LastOpen of nobody", nil, cmpopts.EquateEmpty())(s.LastOpen(t.Context(), q))
}

func chainIsCopied(t *testing.T, s Runs) {
	c := NewChain(mine, "Copied", "One")
	r := mustCreate(t, s, "somebody", c)
	for range 3 { // the later reads may come from a cache
		got, err := s.Pinned(t.Context(), r.Pin)
		if err != nil {
			t.Fatalf("Pinned = %v, want nil", err)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Fatalf("Pinned (-want +got):\n%s", diff)
		}
		got.Steps[0].Label, got.Inputs[0] = "changed", 'x'
	}
}
