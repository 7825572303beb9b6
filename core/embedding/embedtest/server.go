package embedtest

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Fault is a way in which the endpoint fails.
type Fault string

// The faults.
const (
	Fine        Fault = ""
	Down        Fault = "down"         // closes the connection without an answer
	Slow        Fault = "slow"         // answers only when the client has gone, or never
	Busy        Fault = "busy"         // 429, with Retry-After if Behaviour says so
	Broken      Fault = "broken"       // 500
	Refusing    Fault = "refusing"     // 401, with the key in the message
	Moved       Fault = "moved"        // 307 to another path
	TooFew      Fault = "too few"      // a vector is missing
	Reversed    Fault = "reversed"     // last vector first, with the right index: allowed
	SameIndex   Fault = "same index"   // all vectors have index 0
	OtherLength Fault = "other length" // one vector is shorter
	NotANumber  Fault = "not a number"
	Infinite    Fault = "infinite"
	Zeros       Fault = "zeros"
	Huge        Fault = "huge" // an endless body
	Garbage     Fault = "garbage"
)

// Options tune an endpoint. The zero value is usable.
type Options struct {
	// Dimension of the vectors. The default is 256.
	Dimension int
	// Key that requests must carry, or empty.
	Key string
	// MaxBatch refuses requests with more texts (413). Zero means any number.
	MaxBatch int
	// MaxCharacters refuses longer texts (413). Zero means any length.
	MaxCharacters int
	// Delay of every answer.
	Delay time.Duration
}

// Behaviour is a fault and its duration.
type Behaviour struct {
	Fault Fault
	// Times is the number of requests; zero: until the next Behave.
	Times int
	// RetryAfter is sent with Busy and Broken, in whole seconds; zero: not sent.
	RetryAfter time.Duration
}

// Endpoint answers POST /v1/embeddings. It is safe for concurrent use.
type Endpoint struct {
	stop chan struct{} // closed with Close: slow answers give up

	mu        sync.Mutex // guards the fields below
	opt       Options
	behaviour Behaviour
	requests  int
	texts     []string
}

// NewEndpoint returns an endpoint that is not served yet.
func NewEndpoint(o Options) *Endpoint {
	if o.Dimension == 0 {
		o.Dimension = 256
	}
	return &Endpoint{opt: o, stop: make(chan struct{})}
}

// Server is an endpoint on a free loopback port.
type Server struct {
	*Endpoint
	http *httptest.Server
}

// Start serves an endpoint until Close.
func Start(o Options) *Server {
	e := NewEndpoint(o)
	return &Server{e, httptest.NewServer(e)}
}

// URL is what to configure, without /v1.
func (s *Server) URL() string { return s.http.URL }

// Close stops the server; pending requests are dropped.
func (s *Server) Close() {
	close(s.stop)
	s.http.CloseClientConnections()
	s.http.Close()
}

// Behave sets the fault for the next requests.
func (e *Endpoint) Behave(b Behaviour) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.behaviour = b
}

// SetDimension changes the length of all further vectors, like another model.
func (e *Endpoint) SetDimension(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opt.Dimension = n
}

// Requests returns the number of requests so far.
func (e *Endpoint) Requests() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.requests
}

// Texts returns all texts of the requests so far, in order.
func (e *Endpoint) Texts() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.texts...)
}

type request struct {
	Input      []string `json:"input"`
	Model      string   `json:"model"`
	Dimensions int      `json:"dimensions"`
}

type item struct {
	Object    string          `json:"object"`
	Index     int             `json:"index"`
	Embedding json.RawMessage `json:"embedding"`
}

// take counts a request and returns its fault.
func (e *Endpoint) take() (Options, Behaviour) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests++
	b := e.behaviour
	if b.Times > 0 {
		if e.behaviour.Times--; e.behaviour.Times == 0 {
			e.behaviour = Behaviour{}
		}
	}
	return e.opt, b
}

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o, b := e.take()
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/embeddings") {
		fail(w, http.StatusNotFound, "no such path: "+r.Method+" "+r.URL.Path)
		return
	}
	var in request
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Input) == 0 {
		fail(w, http.StatusBadRequest, "input must be a list of texts")
		return
	}
	// The server notices a closed connection only after it has read the body.
	_, _ = io.Copy(io.Discard, r.Body)
	e.mu.Lock()
	e.texts = append(e.texts, in.Input...)
	e.mu.Unlock()
	if e.meet(w, r, b) {
		return
	}
	if o.Key != "" && r.Header.Get("Authorization") != "Bearer "+o.Key {
		fail(w, http.StatusUnauthorized, "incorrect API key: "+r.Header.Get("Authorization"))
		return
	}
	if o.MaxBatch > 0 && len(in.Input) > o.MaxBatch {
		fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("batch size %d is more than %d", len(in.Input), o.MaxBatch))
		return
	}
	for _, text := range in.Input {
		if o.MaxCharacters > 0 && utf8.RuneCountInString(text) > o.MaxCharacters {
			fail(w, http.StatusRequestEntityTooLarge, "input must have less tokens")
			return
		}
	}
	if in.Dimensions > 0 {
		o.Dimension = in.Dimensions
	}
	if !e.wait(r, o.Delay) {
		return
	}
	answer(w, in, o.Dimension, b.Fault)
}

// meet answers requests that get no vectors.
func (e *Endpoint) meet(w http.ResponseWriter, r *http.Request, b Behaviour) bool {
	if b.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(b.RetryAfter.Seconds()))))
	}
	switch b.Fault {
	case Down:
		panic(http.ErrAbortHandler)
	case Slow:
		e.wait(r, time.Hour)
	case Busy:
		fail(w, http.StatusTooManyRequests, "too many requests")
	case Broken:
		fail(w, http.StatusInternalServerError, "something broke")
	case Refusing:
		fail(w, http.StatusUnauthorized, "incorrect API key: "+r.Header.Get("Authorization"))
	case Moved:
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	case Garbage:
		fmt.Fprint(w, `<html>502 Bad Gateway</html>`)
	case Huge:
		fmt.Fprint(w, `{"object":"list","data":[{"index":0,"embedding":[0.1`)
		for block := strings.Repeat(",0.125", 10_000); r.Context().Err() == nil; {
			if _, err := fmt.Fprint(w, block); err != nil {
				break
			}
		}
	default:
		return false
	}
	return true
}

// wait reports whether the time passed before the client or the endpoint gave up.
func (e *Endpoint) wait(r *http.Request, d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-e.stop:
	}
	return false
}

func answer(w http.ResponseWriter, in request, dimension int, f Fault) {
	items := make([]item, len(in.Input))
	for i, text := range in.Input {
		items[i] = item{"embedding", i, encode(Vector(text, dimension))}
	}
	last := &items[len(items)-1]
	switch f {
	case TooFew:
		items = items[:len(items)-1]
	case Reversed:
		slices.Reverse(items)
	case SameIndex:
		for i := range items {
			items[i].Index = 0
		}
	case OtherLength:
		last.Embedding = encode(Vector("x", dimension-1))
	case NotANumber:
		last.Embedding = nil
	case Infinite:
		last.Embedding = json.RawMessage("[" + strings.Repeat("1e38,", dimension-1) + "1e39]")
	case Zeros:
		last.Embedding = encode(make([]float32, dimension))
	}
	var b strings.Builder
	_ = json.NewEncoder(&b).Encode(map[string]any{ // of plain types: never fails
		"object": "list", "data": items, "model": in.Model, "usage": map[string]int{"prompt_tokens": 1, "total_tokens": 1},
	})
	text := b.String()
	if f == NotANumber {
		text = strings.Replace(text, `"embedding":null`, `"embedding":[NaN`+strings.Repeat(",0.5", dimension-1)+`]`, 1)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, text)
}

func encode(v []float32) json.RawMessage {
	raw, _ := json.Marshal(v) // finite numbers: never fails
	return raw
}

func fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": "error", "code": status}})
}
