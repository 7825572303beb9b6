package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

type handler struct {
	info    Info
	drivers Drivers
	setup   Setup
}

// NewHandler returns the interface without a listener.
func NewHandler(info Info, drivers Drivers, setup Setup) http.Handler {
	h := &handler{info: info, drivers: drivers, setup: setup}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/server", h.server)
	mux.HandleFunc("GET /v1/drivers", h.list)
	mux.HandleFunc("GET /v1/drivers/{name}", h.show)
	mux.HandleFunc("GET /v1/drivers/{name}/logs", h.logs)
	mux.HandleFunc("POST /v1/reload", h.reload)
	mux.HandleFunc("POST /v1/rollback", h.rollback)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Errorf("there is no %s %s here", r.Method, r.URL.Path))
	})
	return mux
}

func (h *handler) server(w http.ResponseWriter, _ *http.Request) { reply(w, h.info) }

func (h *handler) list(w http.ResponseWriter, _ *http.Request) {
	all := h.drivers.Status()
	if all == nil {
		all = []driverhost.Status{}
	}
	reply(w, driversReply{Drivers: all})
}

func (h *handler) show(w http.ResponseWriter, r *http.Request) {
	s, ok := h.drivers.StatusOf(r.PathValue("name"))
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
	if _, ok := h.drivers.StatusOf(name); !ok {
		refuse(w, http.StatusNotFound, noDriver(r))
		return
	}
	n := DefaultLines
	if given := r.URL.Query().Get("lines"); given != "" {
		var err error
		if n, err = strconv.Atoi(given); err != nil || n < 0 {
			refuse(w, http.StatusBadRequest, fmt.Errorf("lines is %q: must be a number that is not negative", given))
			return
		}
	}
	w.Header().Set("Content-Type", "application/jsonl")
	out := &lines{w: w, control: http.NewResponseController(w), enc: json.NewEncoder(w)}
	if follow := r.URL.Query().Get("follow"); follow != "1" && follow != "true" {
		for _, line := range h.drivers.Logs(name, n) {
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
	_ = h.drivers.FollowLogs(r.Context(), name, n, func(line driverhost.Line) error {
		return errors.Join(out.emit(line), out.flush())
	})
}

// lines writes log lines, each within a bounded time.
type lines struct {
	w       http.ResponseWriter
	control *http.ResponseController
	enc     *json.Encoder
}

func (l *lines) emit(line driverhost.Line) error {
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
	change(w, func() (setup.Report, error) { return h.setup.Reload(r.Context(), req.Drivers...) })
}

func (h *handler) rollback(w http.ResponseWriter, r *http.Request) {
	if err := decode(w, r, &struct{}{}); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	change(w, func() (setup.Report, error) { return h.setup.Rollback(r.Context()) })
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
