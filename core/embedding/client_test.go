package embedding_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Idle keep-alive connections of a client end with their server or after a while.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

const key = "sk-very-secret-4711"

// setting is a client and its endpoint.
type setting struct {
	*embedding.Client
	server *embedtest.Server
	log    *lines
}

// lines is a log that may be read while it is written.
type lines struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func connect(t testing.TB, o embedtest.Options, change func(*embedding.Config)) setting {
	t.Helper()
	server := embedtest.Start(o)
	t.Cleanup(server.Close)
	cfg := embedding.Config{
		Provider: "openai", URL: server.URL(), Model: "words", Key: key,
		Timeout: time.Minute, Backoff: time.Millisecond, CoolDown: time.Hour,
	}
	if change != nil {
		change(&cfg)
	}
	log := new(lines)
	c, err := embedding.New(cfg, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if strings.Contains(log.String(), key) {
			t.Errorf("the log shows the key: %s", log)
		}
	})
	return setting{c, server, log}
}

func texts(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("text number %d", i)
	}
	return out
}

func (s setting) mustEmbed(t testing.TB, texts ...string) [][]float32 {
	t.Helper()
	out, err := s.Embed(t.Context(), texts)
	if err != nil {
		t.Fatalf("Embed: %v", err)
	}
	if len(out.Vectors) != len(texts) {
		t.Fatalf("Embed gives %d vectors for %d texts", len(out.Vectors), len(texts))
	}
	return out.Vectors
}

func same(t testing.TB, got []float32, text string) {
	t.Helper()
	want := embedtest.Vector(text, len(got))
	for i := range got {
		if math.Abs(float64(got[i]-want[i])) > 1e-5 {
			t.Fatalf("the vector of %q differs from what the endpoint made of it at %d: %v, want %v", text, i, got[i], want[i])
		}
	}
}

func TestEveryTextGetsItsVectorInItsPlace(t *testing.T) {
	for name, change := range map[string]func(*embedding.Config){
		"one request":         nil,
		"batches by number":   func(c *embedding.Config) { c.Batch = 3 },
		"batches by length":   func(c *embedding.Config) { c.BatchCharacters = 40 },
		"a URL with /v1":      func(c *embedding.Config) { c.URL += "/v1/" },
		"a URL of everything": func(c *embedding.Config) { c.URL += "/v1/embeddings" },
	} {
		t.Run(name, func(t *testing.T) {
			s := connect(t, embedtest.Options{Key: key}, change)
			in := append(texts(10), "text number 3") // twice in one call
			for i, v := range s.mustEmbed(t, in...) {
				same(t, v, in[i])
			}
			if asked := s.server.Texts(); len(asked) != 10 {
				t.Errorf("the endpoint was asked for %d texts, want each of the 10 once", len(asked))
			}
		})
	}
}

func TestWhatWasHeardIsNotAskedAgain(t *testing.T) {
	s := connect(t, embedtest.Options{}, nil)
	s.mustEmbed(t, texts(5)...)
	s.mustEmbed(t, texts(6)...)
	if asked := s.server.Texts(); len(asked) != 6 || s.server.Requests() != 2 {
		t.Errorf("asked for %d texts in %d requests, want 6 in 2", len(asked), s.server.Requests())
	}
}

func TestTheMemoryIsBounded(t *testing.T) {
	s := connect(t, embedtest.Options{}, func(c *embedding.Config) { c.Kept = 2 })
	s.mustEmbed(t, texts(5)...)
	s.mustEmbed(t, "text number 0")
	if n := len(s.server.Texts()); n != 6 {
		t.Errorf("asked for %d texts, want 6: the first was forgotten", n)
	}
}

func TestTheNameTellsProviderModelAndDimension(t *testing.T) {
	s := connect(t, embedtest.Options{Dimension: 96}, nil)
	for range 2 {
		out, err := s.Embed(t.Context(), nil)
		if err != nil || out.Model != "openai/words/96" || len(out.Vectors) != 0 {
			t.Fatalf("Embed() = %+v, %v, want only the model openai/words/96", out, err)
		}
	}
	if s.server.Requests() != 1 {
		t.Errorf("%d requests to learn the dimension, want 1", s.server.Requests())
	}
	s = connect(t, embedtest.Options{}, func(c *embedding.Config) { c.Dimension = 64 })
	if out, err := s.Embed(t.Context(), nil); err != nil || out.Model != "openai/words/64" || s.server.Requests() != 0 {
		t.Errorf("Embed() with a configured dimension = %+v, %v after %d requests, want openai/words/64 without one", out, err, s.server.Requests())
	}
}

func TestADimensionMayBeAskedFor(t *testing.T) {
	s := connect(t, embedtest.Options{}, func(c *embedding.Config) { c.Dimension, c.AskDimension = 64, true })
	if v := s.mustEmbed(t, "a text"); len(v[0]) != 64 {
		t.Errorf("the vector has %d numbers, want 64", len(v[0]))
	}
}

func TestPassingFaultsAreOvercome(t *testing.T) {
	for name, b := range map[string]embedtest.Behaviour{
		"down":          {Fault: embedtest.Down, Times: 3},
		"busy":          {Fault: embedtest.Busy, Times: 4},
		"broken":        {Fault: embedtest.Broken, Times: 4},
		"other order":   {Fault: embedtest.Reversed},
		"slow at first": {Fault: embedtest.Slow, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := connect(t, embedtest.Options{}, func(c *embedding.Config) {
				c.Timeout, c.Budget = time.Minute, time.Hour
				if b.Fault == embedtest.Slow {
					c.Timeout = 2 * time.Second // four of the five attempts have it for what comes at once
				}
			})
			s.server.Behave(b)
			in := texts(4)
			for i, v := range s.mustEmbed(t, in...) {
				same(t, v, in[i])
			}
			if s.log.String() != "" {
				t.Errorf("what was overcome is logged: %s", s.log)
			}
		})
	}
}

func TestRetryAfterIsKept(t *testing.T) {
	s := connect(t, embedtest.Options{}, nil)
	s.server.Behave(embedtest.Behaviour{Fault: embedtest.Busy, Times: 1, RetryAfter: time.Second})
	started := time.Now()
	s.mustEmbed(t, "a text")
	if took := time.Since(started); took < time.Second {
		t.Errorf("asked again after %s, want at least the second that the endpoint wanted", took)
	}
}

func TestALongRetryAfterIsNotWaitedFor(t *testing.T) {
	s := connect(t, embedtest.Options{}, func(c *embedding.Config) { c.Budget = time.Hour })
	s.server.Behave(embedtest.Behaviour{Fault: embedtest.Busy, RetryAfter: 2 * time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(time.Minute, cancel).Stop() // a cancel, which is not known before as a deadline is
	if _, err := s.Embed(ctx, texts(1)); err == nil || ctx.Err() != nil {
		t.Errorf("Embed = %v, %v, want an error at once: two hours are beyond the budget", err, ctx.Err())
	}
}

func TestAnswersThatCannotBeRightAreErrors(t *testing.T) {
	for fault, says := range map[embedtest.Fault]string{
		embedtest.TooFew:      "3 vectors for 4 texts",
		embedtest.SameIndex:   "index 0",
		embedtest.OtherLength: "different lengths",
		embedtest.NotANumber:  "not JSON",
		embedtest.Infinite:    "cannot be used",
		embedtest.Zeros:       "a vector is zero",
		embedtest.Huge:        "more than",
		embedtest.Garbage:     "not JSON",
		embedtest.Refusing:    "is the API key right",
		embedtest.Moved:       "redirects are not followed",
	} {
		t.Run(string(fault), func(t *testing.T) {
			s := connect(t, embedtest.Options{}, nil)
			s.server.Behave(embedtest.Behaviour{Fault: fault})
			out, err := s.Embed(t.Context(), texts(4))
			if err == nil || !strings.Contains(err.Error(), says) || out.Vectors != nil {
				t.Fatalf("Embed = %v vectors, %v, want none and an error that says %q", out.Vectors, err, says)
			}
			if strings.Contains(err.Error(), key) {
				t.Errorf("the error shows the key: %v", err)
			}
			if n := s.server.Requests(); n != 1 {
				t.Errorf("%d requests, want 1: nothing gets better by repeating it", n)
			}
			s.server.Behave(embedtest.Behaviour{})
			if _, err := s.Embed(t.Context(), []string{"text number 0"}); err == nil {
				t.Error("a vector of a bad answer was kept")
			}
		})
	}
}

func TestAConfiguredDimensionIsHeldTo(t *testing.T) {
	s := connect(t, embedtest.Options{Dimension: 256}, func(c *embedding.Config) { c.Dimension = 128 })
	if _, err := s.Embed(t.Context(), texts(1)); err == nil || !strings.Contains(err.Error(), "256 numbers, the configured dimension is 128") {
		t.Errorf("Embed = %v, want an error about the dimension", err)
	}
}

func TestAnotherDimensionIsTakenUpAndNeverMixed(t *testing.T) {
	s := connect(t, embedtest.Options{Dimension: 128}, nil)
	s.mustEmbed(t, texts(3)...)
	s.server.SetDimension(64)
	in := texts(5) // three of them are remembered with 128 numbers
	out, err := s.Embed(t.Context(), in)
	if err != nil || out.Model != "openai/words/64" {
		t.Fatalf("Embed = %s, %v, want openai/words/64", out.Model, err)
	}
	for i, v := range out.Vectors {
		if len(v) != 64 {
			t.Errorf("vector %d has %d numbers, want 64", i, len(v))
		}
	}
	if !strings.Contains(s.log.String(), "another dimension") {
		t.Error("the log does not say that the dimension changed")
	}
}

func TestADownEndpointIsSaidOnceAndNotWaitedForAgain(t *testing.T) {
	s := connect(t, embedtest.Options{}, func(c *embedding.Config) { c.Timeout, c.Budget = 150*time.Millisecond, 400*time.Millisecond })
	s.server.Behave(embedtest.Behaviour{Fault: embedtest.Slow})
	if _, err := s.Embed(t.Context(), texts(1)); err == nil || !strings.Contains(err.Error(), "in time") {
		t.Fatalf("Embed = %v, want an error about the time", err)
	}
	before := s.server.Requests()
	for range 20 {
		_, err := s.Embed(t.Context(), texts(1))
		if down := (*embedding.Down)(nil); !errors.As(err, &down) {
			t.Fatalf("Embed = %v, want Down", err)
		}
	}
	if n := s.server.Requests(); n != before {
		t.Errorf("%d more requests while the endpoint is left alone, want none", n-before)
	}
	if n := strings.Count(s.log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, s.log)
	}
}

func TestAfterTheCoolDownOneCallTriesAndOpensForAll(t *testing.T) {
	s := connect(t, embedtest.Options{}, func(c *embedding.Config) { c.CoolDown = 30 * time.Millisecond })
	s.server.Behave(embedtest.Behaviour{Fault: embedtest.Refusing})
	if _, err := s.Embed(t.Context(), texts(1)); err == nil {
		t.Fatal("Embed succeeds at an endpoint that refuses")
	}
	s.server.Behave(embedtest.Behaviour{})
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := s.Embed(t.Context(), texts(1))
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the endpoint is well and still not asked: %v", err)
		}
	}
	s.mustEmbed(t, texts(3)...)
	if !strings.Contains(s.log.String(), "answers again") {
		t.Error("the log does not say that the endpoint is back")
	}
}

func TestACallerWhoLeavesProvesNothing(t *testing.T) {
	for name, leave := range map[string]func(context.Context, setting) (context.Context, func()){
		"who has no time": func(ctx context.Context, _ setting) (context.Context, func()) {
			return context.WithDeadline(ctx, time.Now())
		},
		"who leaves while it is asked": func(ctx context.Context, s setting) (context.Context, func()) {
			ctx, cancel := context.WithCancel(ctx)
			go func() {
				defer cancel()
				for s.server.Requests() == 0 && t.Context().Err() == nil {
					time.Sleep(time.Millisecond) // polling
				}
			}()
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := connect(t, embedtest.Options{}, nil)
			s.server.Behave(embedtest.Behaviour{Fault: embedtest.Slow})
			ctx, cancel := leave(t.Context(), s)
			defer cancel()
			if _, err := s.Embed(ctx, texts(1)); err == nil {
				t.Fatal("Embed succeeds at an endpoint that never answers")
			}
			s.server.Behave(embedtest.Behaviour{})
			s.mustEmbed(t, texts(1)...)
		})
	}
}

func TestWhatIsTooMuchIsAskedInParts(t *testing.T) {
	s := connect(t, embedtest.Options{MaxBatch: 4, MaxCharacters: 600}, nil)
	in := append(texts(10), strings.Repeat("schöne lange Worte ", 200))
	out := s.mustEmbed(t, in...)
	for i := range 10 {
		same(t, out[i], in[i])
	}
	if out[10] == nil {
		t.Error("the long text has no vector")
	}
}

func TestATextThatIsRefusedDoesNotPutTheEndpointAside(t *testing.T) {
	s := connect(t, embedtest.Options{MaxCharacters: 3}, nil)
	if _, err := s.Embed(t.Context(), texts(1)); err == nil {
		t.Fatal("Embed succeeds with a text that the endpoint refuses")
	}
	s.mustEmbed(t, "ok")
}

func TestConcurrentCallsAgree(t *testing.T) {
	s := connect(t, embedtest.Options{}, func(c *embedding.Config) { c.Batch, c.Kept = 3, 8 })
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			in := texts(12)
			out, err := s.Embed(t.Context(), in)
			if err != nil {
				t.Error(err)
				return
			}
			for i, v := range out.Vectors {
				same(t, v, in[i])
			}
		})
	}
	wg.Wait()
}

func TestSecretsAreNotPrinted(t *testing.T) {
	cfg := embedding.Config{URL: "http://127.0.0.1:1", Model: "m", Key: key}
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Info("config", "config", cfg, "key", cfg.Key)
	for _, shown := range []string{fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, cfg.Key), b.String()} {
		if strings.Contains(shown, key) {
			t.Errorf("the key is shown: %s", shown)
		}
	}
}

func TestWhatIsWrongWithTheConfigurationIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*embedding.Config)
		says   string
	}{
		"no URL":            {func(c *embedding.Config) { c.URL = "" }, "http://"},
		"no scheme":         {func(c *embedding.Config) { c.URL = "localhost:8080" }, "http://"},
		"a password":        {func(c *embedding.Config) { c.URL = "http://me:" + key + "@localhost" }, "name or password"},
		"a broken password": {func(c *embedding.Config) { c.URL = "http://me:%zz" + key + "@localhost" }, "not a URL"},
		"a query":           {func(c *embedding.Config) { c.URL = "http://localhost?key=" + key }, "query or fragment"},
		"no model":          {func(c *embedding.Config) { c.Model = "" }, "model"},
		"a dimension":       {func(c *embedding.Config) { c.Dimension = 1 << 20 }, "dimension is 1048576"},
		"a batch":           {func(c *embedding.Config) { c.Batch = 5000 }, "batch is 5000"},
		"a key of lines":    {func(c *embedding.Config) { c.Key = key + "\nx" }, "more than one line"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := embedding.Config{URL: "http://127.0.0.1:8080", Model: "m"}
			tc.change(&cfg)
			_, err := embedding.New(cfg, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), key) {
				t.Errorf("New = %v, want an error that says %q and hides the key", err, tc.says)
			}
		})
	}
}

func TestAKeyInTheClearIsNoticed(t *testing.T) {
	for url, exposed := range map[string]bool{
		"http://127.0.0.1:8080": false, "http://[::1]:8080": false, "http://localhost": false, "https://example.org": false,
		"http://192.0.2.7": true, "http://embeddings.example.org/v1": true,
	} {
		if got := (embedding.Config{URL: url, Key: key}).Exposed(); got != exposed {
			t.Errorf("Exposed with a key to %s = %v, want %v", url, got, exposed)
		}
		if (embedding.Config{URL: url}).Exposed() {
			t.Errorf("Exposed without a key to %s", url)
		}
	}
}
