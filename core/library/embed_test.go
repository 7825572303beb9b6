package library_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func clientOf(t testing.TB, server *embedtest.Server) *embedding.Client {
	t.Helper()
	c, err := embedding.New(embedding.Config{
		Provider: "openai", URL: server.URL(), Model: "words", Timeout: time.Hour, Budget: time.Hour,
		Backoff: time.Millisecond, CoolDown: time.Millisecond,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// embedded is a world with an endpoint.
type embedded struct {
	*world
	server *embedtest.Server
}

func newEmbedded(t testing.TB, o embedtest.Options, change func(*library.Options)) embedded {
	t.Helper()
	server := embedtest.Start(o)
	t.Cleanup(server.Close)
	w := newWorld(t, func(c *library.Options) {
		c.Embedder, c.EmbedBudget = clientOf(t, server), time.Minute
		if change != nil {
			change(c)
		}
	})
	return embedded{w, server}
}

// spaces is a call that stores the built-in protocols.
func (w *world) spaces() {
	w.t.Helper()
	if _, err := w.Spaces(context.Background(), w.caller, api.SpacesRequest{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) missing() int {
	w.t.Helper()
	s, err := w.Embeddings(context.Background())
	if err != nil {
		w.t.Fatalf("Embeddings: %v", err)
	}
	return s.Missing
}

// complete waits until every passage has a vector.
func (w *world) complete() {
	w.t.Helper()
	var err error
	var s library.EmbeddingState
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if s, err = w.Embeddings(context.Background()); err == nil && s.Missing == 0 {
			return
		}
	}
	w.t.Fatalf("Embeddings = %+v, %v, want nothing missing", s, err)
}

// fill runs FillVectors until the test ends or the returned function is called.
func (w *world) fill() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.FillVectors(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	w.t.Cleanup(stop)
	return stop
}

const credentials = `# Rotating credentials

## Create the new key

Create a new key in the vault.

## Revoke the old key

Once every consumer uses the new key, revoke the old one.
`

func TestMintEmbedsWhatItStoresAndOnlyThat(t *testing.T) {
	w := newEmbedded(t, embedtest.Options{}, nil)
	w.spaces()
	builtin := w.missing()
	if reply := w.mintReply(credentials); reply.Message != "Both steps prove nothing." { // and nothing about vectors
		t.Errorf("message %q, want only what the protocol is worth", reply.Message)
	}
	if got := w.missing(); got != builtin {
		t.Errorf("%d passages are missing, want only the %d of the built-in protocols", got, builtin)
	}
	before := len(w.server.Texts())
	w.mintReply(credentials)
	if asked := w.server.Texts()[before:]; len(asked) != 0 {
		t.Errorf("minting the same again asks for %q, want nothing", asked)
	}
	w.mintReply(strings.Replace(credentials, "in the vault", "in the new vault", 1))
	if asked := w.server.Texts()[before:]; len(asked) != 1 || !strings.Contains(asked[0], "in the new vault") {
		t.Errorf("minting one changed step asks for %q, want that step", asked)
	}
}

func TestARestartedServerAsksForNothingThatIsStored(t *testing.T) {
	server := embedtest.Start(embedtest.Options{})
	t.Cleanup(server.Close)
	db := filepath.Join(t.TempDir(), "kairos.db")
	worldOn(t, db, func(c *library.Options) { c.Embedder, c.EmbedBudget = clientOf(t, server), time.Minute }).mintReply(credentials)
	before := len(server.Texts())
	worldOn(t, db, func(c *library.Options) { c.Embedder, c.EmbedBudget = clientOf(t, server), time.Minute }).mintReply(credentials)
	for _, text := range server.Texts()[before:] {
		if strings.Contains(text, "vault") {
			t.Errorf("the other process asks again for %q", text)
		}
	}
}

func TestMintStoresWhateverTheEndpointDoesAndSaysSo(t *testing.T) {
	for _, fault := range []embedtest.Fault{
		embedtest.Down, embedtest.Slow, embedtest.Busy, embedtest.Broken, embedtest.Refusing, embedtest.TooFew, embedtest.OtherLength,
		embedtest.NotANumber, embedtest.Zeros, embedtest.Garbage, embedtest.Huge,
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			w := newEmbedded(t, embedtest.Options{Dimension: 64}, func(c *library.Options) { c.EmbedBudget = 150 * time.Millisecond })
			w.server.Behave(embedtest.Behaviour{Fault: fault})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			reply, err := w.Mint(ctx, w.caller, api.MintRequest{Document: credentials, ModelID: "test", Force: true})
			if err != nil || ctx.Err() != nil {
				t.Fatalf("Mint = %v, %v; want it to end by its own budget", err, ctx.Err())
			}
			if reply.Status != "stored" || len(reply.Items) != 2 || !strings.Contains(reply.Message, "2 of 2 passages") {
				t.Errorf("Mint = %s, %d items, %q, want stored, 2 and what is missing", reply.Status, len(reply.Items), reply.Message)
			}
			w.findsByWords("revoke old key")
			w.server.Behave(embedtest.Behaviour{})
			w.fill()
			w.complete()
		})
	}
}

func (w *world) findsByWords(query string) {
	w.t.Helper()
	reply, err := w.Search(context.Background(), w.caller, api.SearchRequest{Query: query})
	if err != nil || reply.Choices[0].Role != "match" {
		w.t.Errorf("Search(%q) = %+v, %v, want a match", query, reply.Choices, err)
	}
}

func TestWhatAMintCannotFinishWithinItsBudgetTheLoopDoes(t *testing.T) {
	t.Parallel()
	w := newEmbedded(t, embedtest.Options{Dimension: 32, Delay: 100 * time.Millisecond}, func(c *library.Options) { c.EmbedBudget = 350 * time.Millisecond })
	w.fill()
	var doc strings.Builder
	doc.WriteString("# A long protocol\n")
	for i := range 100 {
		fmt.Fprintf(&doc, "\n## Step %d\n\nDo thing number %d.\n", i, i)
	}
	if reply := w.mintReply(doc.String()); !strings.Contains(reply.Message, "of 100 passages") || !strings.Contains(reply.Message, "too long") {
		t.Errorf("message %q, want how many of 100 are missing and that it takes too long", reply.Message)
	}
	w.complete()
}

func TestTheLoopOutlastsAnEndpointThatComesAndGoes(t *testing.T) {
	t.Parallel()
	w := newEmbedded(t, embedtest.Options{Dimension: 32}, nil)
	w.server.Behave(embedtest.Behaviour{Fault: embedtest.Busy, Times: 7, RetryAfter: time.Second})
	w.spaces()
	w.fill()
	w.complete()
	w.server.Behave(embedtest.Behaviour{Fault: embedtest.Down})
	if reply := w.mintReply(credentials); reply.Message == "" {
		t.Error("Mint does not say that the endpoint is down")
	}
	w.server.Behave(embedtest.Behaviour{})
	w.complete()
}

func TestAnotherDimensionEmbedsEverythingAnew(t *testing.T) {
	w := newEmbedded(t, embedtest.Options{Dimension: 64}, nil)
	w.mintReply(credentials)
	all := w.missing() + 2
	w.fill()
	w.complete()
	w.server.SetDimension(32)
	if n := w.missing(); n != all {
		t.Errorf("%d passages are missing for the new dimension, want all %d", n, all)
	}
	w.complete()
	s, err := w.Embeddings(t.Context())
	if err != nil || s.Model != "openai/words/32" {
		t.Errorf("Embeddings = %+v, %v, want openai/words/32", s, err)
	}
}

// A text that the endpoint never takes must not keep the others waiting.
func TestAPassageThatIsRefusedHoldsUpNobody(t *testing.T) {
	w := newEmbedded(t, embedtest.Options{Dimension: 32}, func(c *library.Options) { c.Embedder = picky{c.Embedder} })
	w.mintReply(strings.Replace(credentials, "in the vault", "in the POISON vault", 1))
	w.fill()
	for deadline := time.Now().Add(2 * time.Minute); w.missing() != 1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d passages are missing, want only the refused one", w.missing())
		}
	}
}

// picky is an endpoint that refuses a word.
type picky struct{ library.Embedder }

func (p picky) Embed(ctx context.Context, texts []string) (library.Embedded, error) {
	if strings.Contains(strings.Join(texts, ""), "POISON") {
		return library.Embedded{}, fmt.Errorf("400: %w", library.ErrTextRefused)
	}
	return p.Embedder.Embed(ctx, texts)
}

func TestTheLoopEndsWithItsContext(t *testing.T) {
	w := newEmbedded(t, embedtest.Options{}, nil)
	w.server.Behave(embedtest.Behaviour{Fault: embedtest.Slow})
	w.spaces()
	w.fill()() // goleak looks for what is left
}

// A process that is killed in the middle leaves a store that says what is
// missing, and what it embedded before is not asked for again.
func TestAKilledServerLosesNoVectorAndNoPassage(t *testing.T) {
	t.Parallel()
	server := embedtest.Start(embedtest.Options{Dimension: 32})
	t.Cleanup(server.Close)
	// The other process gets its first answers, and is killed while it waits for the next.
	var asks atomic.Int32
	stuck := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if asks.Add(1) <= 5 {
			server.ServeHTTP(rw, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that the client has gone
		stuck <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(front.Close)
	db := filepath.Join(t.TempDir(), "kairos.db")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$")
	child.Env = append(os.Environ(), "KAIROS_VICTIM_DB="+db, "KAIROS_VICTIM_URL="+front.URL)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stuck:
	case <-time.After(time.Minute):
		t.Fatal("the other process does not ask for more")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed, as it should be
	asked := len(server.Texts())

	w := worldOn(t, db, func(c *library.Options) { c.Embedder, c.EmbedBudget = clientOf(t, server), time.Minute })
	before := w.missing()
	if before == 0 || before >= 300 {
		t.Fatalf("%d passages are missing after the kill, want some of 300 and not all", before)
	}
	w.fill()
	w.complete()
	if n := len(server.Texts()) - asked; n > before+5 {
		t.Errorf("%d texts were asked for after the kill, want the %d that were missing", n, before)
	}
}

// TestVictim is the process that is killed.
func TestVictim(t *testing.T) {
	db := os.Getenv("KAIROS_VICTIM_DB")
	if db == "" {
		t.Skip("only as the other process of TestAKilledServerLosesNoVectorAndNoPassage")
	}
	c, err := embedding.New(embedding.Config{Provider: "openai", URL: os.Getenv("KAIROS_VICTIM_URL"), Model: "words"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w := worldOn(t, db, func(o *library.Options) { o.Embedder, o.EmbedBudget = c, time.Nanosecond })
	var doc strings.Builder
	doc.WriteString("# A long protocol\n")
	for i := range 300 {
		fmt.Fprintf(&doc, "\n## Step %d\n\nDo thing number %d.\n", i, i)
	}
	w.mintReply(doc.String())
	w.FillVectors(context.Background())
}

func TestSearchContinuesByWordsWhenTheEndpointFails(t *testing.T) {
	w := newEmbedded(t, embedtest.Options{}, func(c *library.Options) { c.EmbedBudget = 100 * time.Millisecond })
	w.mintReply(credentials)
	w.server.Behave(embedtest.Behaviour{Fault: embedtest.Slow})
	w.findsByWords("rotating credentials")
	if reply := w.find(api.SearchRequest{Query: "rotating credentials"}); !strings.Contains(reply.Message, "Only words were compared") {
		t.Errorf("message %q does not say that only words were compared", reply.Message)
	}
}

func TestASearchEmbedsAllItsTextsInOneRequest(t *testing.T) {
	w := newEmbedded(t, embedtest.Options{}, nil)
	w.mintReply(credentials)
	before := w.server.Requests()
	w.find(api.SearchRequest{Query: "a", Queries: []string{"b", "c", "d", "e", "f"}})
	if n := w.server.Requests() - before; n != 1 {
		t.Errorf("a search for six texts makes %d requests, want 1", n)
	}
}

// One text that the model does not take costs the meaning of that text alone,
// and no further budget.
func TestARefusedTextOfASearchLeavesTheOthersTheirMeaning(t *testing.T) {
	timed := &deadlines{}
	w := newEmbedded(t, embedtest.Options{}, func(c *library.Options) {
		timed.Embedder = picky{c.Embedder}
		c.Embedder = timed
	})
	w.mintReply(credentials)
	timed.seen = nil
	const meant = "exchange secrets, produce a token" // only its meaning is in the protocol
	reply := w.find(api.SearchRequest{Query: "POISON", Queries: []string{meant, "PEBBLE"}})
	if reply.Choices[0].Role != "match" {
		t.Errorf("choices %+v, want the protocol that %q means first", reply.Choices, meant)
	}
	if strings.Contains(reply.Message, "Only words were compared") {
		t.Errorf("message %q, want none about words: a meaning was compared", reply.Message)
	}
	for _, at := range timed.seen {
		if !at.Equal(timed.seen[0]) {
			t.Fatalf("the calls of one search have the deadlines %v, want one for all", timed.seen)
		}
	}
	if len(timed.seen) < 2 {
		t.Errorf("%d calls, want one for all texts and then one for each", len(timed.seen))
	}
}

func (w *world) find(in api.SearchRequest) api.SearchReply {
	w.t.Helper()
	reply, err := w.Search(context.Background(), w.caller, in)
	if err != nil {
		w.t.Fatalf("Search(%+v) = %v, want nil", in, err)
	}
	return reply
}

// deadlines notes until when each call may take.
type deadlines struct {
	library.Embedder
	seen []time.Time
}

func (d *deadlines) Embed(ctx context.Context, texts []string) (library.Embedded, error) {
	at, _ := ctx.Deadline()
	d.seen = append(d.seen, at)
	return d.Embedder.Embed(ctx, texts)
}

func TestSimilarityIsByMeaningAndOtherwiseByWords(t *testing.T) {
	compared := driver.Similarity{Text: "Das alte Kennwort wurde entfernt.", Reference: "Delete the old password\n\nCheck that nobody uses it."}
	w := newEmbedded(t, embedtest.Options{}, nil)
	if v := w.Similarity(t.Context(), compared); v.Method != "embedding" || v.Score < 0.25 {
		t.Errorf("similarity is %.2f by %s, want at least 0.25 by embedding", v.Score, v.Method)
	}
	w = newEmbedded(t, embedtest.Options{}, nil)
	w.server.Behave(embedtest.Behaviour{Fault: embedtest.Refusing})
	if v := w.Similarity(t.Context(), compared); v.Method != "lexical" || v.Score > 0.1 || !strings.Contains(v.Reason, "did not answer") {
		t.Errorf("similarity is %.2f by %s at an endpoint that fails, want next to nothing by words", v.Score, v.Method)
	}
	if v := newWorld(t, nil).Similarity(t.Context(), compared); v.Method != "lexical" || v.Reason != "" {
		t.Errorf("similarity is by %s without an endpoint, want lexical", v.Method)
	}
	table := func(opt *library.Options) { opt.Table = meaning.Default }
	if v := newWorld(t, table).Similarity(t.Context(), compared); v.Method != "lexical" || !strings.Contains(v.Reason, "80 %") {
		t.Errorf("similarity of a German text is by %s (%s) with English word vectors, want lexical and why", v.Method, v.Reason)
	}
	for text, likely := range map[string]bool{"Removed the former credential; it had no users left.": true, "The cake was baked for forty minutes.": false} {
		in := driver.Similarity{Text: text, Reference: compared.Reference}
		if v := newWorld(t, table).Similarity(t.Context(), in); v.Method != "word-vectors" || v.Score > 0.4 != likely {
			t.Errorf("similarity of %q is %.2f by %s", text, v.Score, v.Method)
		}
	}
}

// Stored vectors, and the collections of an index, have the dimension of the endpoint's
// model. The table feeds neither.
func TestATableStoresNoVectors(t *testing.T) {
	if _, embeds := any(meaning.Default()).(library.Embedder); embeds {
		t.Fatal("a table is an Embedder, so its vectors may be stored")
	}
	w := newWorld(t, func(opt *library.Options) { opt.Table = meaning.Default })
	w.FillVectors(t.Context()) // returns at once
	if state, err := w.Embeddings(t.Context()); err != nil || state != (library.EmbeddingState{}) {
		t.Errorf("embeddings = %+v, %v, want none", state, err)
	}
}

func BenchmarkSearchWithEmbedding(b *testing.B) {
	for name, on := range map[string]bool{"words": false, "meaning": true} {
		b.Run(name, func(b *testing.B) {
			var w *world
			if on {
				w = newEmbedded(b, embedtest.Options{Dimension: 1024}, nil).world
			} else {
				w = newWorld(b, nil)
			}
			for i := range 50 {
				w.mintReply(strings.ReplaceAll(credentials, "credentials", fmt.Sprintf("credentials of service %d", i)))
			}
			i := 0
			for b.Loop() {
				i++
				if _, err := w.Search(b.Context(), w.caller, api.SearchRequest{Query: fmt.Sprintf("rotate credentials %d", i)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
