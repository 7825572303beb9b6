package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/setup"
)

const (
	maxBody = 64 << 10
	// DefaultLines is how many log lines are given unless another number is asked for.
	DefaultLines = 200
	// writeTime bounds the writing of a reply, or of one line of a log.
	writeTime = 10 * time.Second
	// readTime bounds the reading of a request's body.
	readTime = 10 * time.Second
	// reloadTime is how long a client waits for a reload: new drivers start in it.
	reloadTime = 2 * time.Minute
)

type handler struct{ Subject }

// NewHandler returns the interface without a listener.
func NewHandler(of Subject) http.Handler {
	h := &handler{of}
	if h.Log == nil {
		h.Log = new(Log)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/server", h.server)
	mux.HandleFunc("GET /v1/drivers", h.list)
	mux.HandleFunc("GET /v1/drivers/{name}", h.show)
	mux.HandleFunc("GET /v1/drivers/{name}/logs", h.logs)
	mux.HandleFunc("GET /v1/logs", h.serverLogs)
	mux.HandleFunc("POST /v1/reload", h.reload)
	mux.HandleFunc("POST /v1/rollback", h.rollback)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Errorf("there is no %s %s here", r.Method, r.URL.Path))
	})
	return mux
}

func (h *handler) server(w http.ResponseWriter, _ *http.Request) {
	info := h.Info
	if h.Degraded != nil {
		info.Degraded = h.Degraded()
	}
	if h.HTTP != nil {
		info.HTTP = h.HTTP()
	}
	reply(w, info)
}

func (h *handler) list(w http.ResponseWriter, _ *http.Request) {
	all := h.Drivers.Status()
	if all == nil {
		all = []driverhost.Status{}
	}
	reply(w, driversReply{Drivers: all})
}

func (h *handler) show(w http.ResponseWriter, r *http.Request) {
	s, ok := h.Drivers.StatusOf(r.PathValue("name"))
	if !ok {
		refuse(w, http.StatusNotFound, noDriver(r))
		return
	}
	reply(w, s)
}

func noDriver(r *http.Request) error {
	return fmt.Errorf("this server runs no driver %q", r.PathValue("name"))
}

// logs writes one JSON document a line.
func (h *handler) logs(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if _, ok := h.Drivers.StatusOf(name); !ok {
		refuse(w, http.StatusNotFound, noDriver(r))
		return
	}
	n, follow, err := linesAsked(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	out := newLines(w)
	if !follow {
		for _, line := range h.Drivers.Logs(name, n) {
			if out.emit(line) != nil {
				return
			}
		}
		return
	}
	if out.flush() != nil { // so that the reader knows it is connected
		return
	}
	// The error is dropped: the reply has begun and cannot turn into an error.
	_ = h.Drivers.FollowLogs(r.Context(), name, n, func(line driverhost.Line) error {
		return errors.Join(out.emit(line), out.flush())
	})
}

// serverLogs writes the records of the server's own log, one a line.
func (h *handler) serverLogs(w http.ResponseWriter, r *http.Request) {
	n, follow, err := linesAsked(r)
	level := slog.LevelDebug
	if given := r.URL.Query().Get("level"); given != "" && err == nil && level.UnmarshalText([]byte(given)) != nil {
		err = fmt.Errorf("level is %q: must be debug, info, warn or error", given)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	out := newLines(w)
	if out.flush() != nil { // so that the reader knows it is connected
		return
	}
	// The error is dropped: the reply has begun and cannot turn into an error.
	_ = h.Log.read(r.Context(), n, level, follow, func(record json.RawMessage) error {
		return errors.Join(out.emit(record), out.flush())
	})
}

// linesAsked is how many lines a request asks for, and whether it follows.
func linesAsked(r *http.Request) (n int, follow bool, err error) {
	n = DefaultLines
	if given := r.URL.Query().Get("lines"); given != "" {
		if n, err = strconv.Atoi(given); err != nil || n < 0 {
			return 0, false, fmt.Errorf("lines is %q: must be a number that is not negative", given)
		}
	}
	asked := r.URL.Query().Get("follow")
	return n, asked == "1" || asked == "true", nil
}

// lines writes log lines, each within a bounded time.
type lines struct {
	w       http.ResponseWriter
	control *http.ResponseController
	enc     *json.Encoder
}

func newLines(w http.ResponseWriter) *lines {
	w.Header().Set("Content-Type", "application/jsonl")
	return &lines{w: w, control: http.NewResponseController(w), enc: json.NewEncoder(w)}
}

func (l *lines) emit(line any) error {
	// A recorder in a test has no deadlines.
	_ = l.control.SetWriteDeadline(time.Now().Add(writeTime))
	return l.enc.Encode(line)
}

func (l *lines) flush() error { return l.control.Flush() }

func (h *handler) reload(w http.ResponseWriter, r *http.Request) {
	var req reloadRequest
	if err := decode(w, r, &req); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	change(w, func() (setup.Report, error) { return h.Setup.Reload(r.Context(), req.Drivers...) })
}

func (h *handler) rollback(w http.ResponseWriter, r *http.Request) {
	if err := decode(w, r, &struct{}{}); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	change(w, func() (setup.Report, error) { return h.Setup.Rollback(r.Context()) })
}

func change(w http.ResponseWriter, do func() (setup.Report, error)) {
	report, err := do()
	if err != nil {
		refuse(w, http.StatusConflict, err) // it is refused and nothing was changed
		return
	}
	reply(w, report)
}

// decode reads a bounded body, strictly; an empty one is an empty object.
func decode(w http.ResponseWriter, r *http.Request, to any) error {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readTime)) // a recorder in a test has none
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the request: %w", err)
	}
	if dec.More() {
		return errors.New("read the request: text after its end")
	}
	return nil
}

func reply(w http.ResponseWriter, v any) { write(w, http.StatusOK, v) }

func refuse(w http.ResponseWriter, status int, err error) {
	write(w, status, failure{Error: err.Error()})
}

func write(w http.ResponseWriter, status int, v any) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // who hung up needs no reply
}
