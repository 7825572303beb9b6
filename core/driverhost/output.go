package driverhost

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin"

	"github.com/kairos-mcp/kairos/sdk/driverrpc"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

const (
	maxHandshake = 16 << 10 // bytes; with a certificate the line has about 1 KiB
	maxLine      = 4 << 10  // bytes of a line that are logged

	linesPerSecond = 50
	linesAtOnce    = 200
	tailLines      = 5 // quoted when a driver does not start
)

// lineSplitter cuts what is written to it into lines of at most max bytes; the
// rest of a longer line is dropped.
type lineSplitter struct {
	max  int
	emit func(line []byte, cut bool)
	line []byte
	cut  bool
}

func (s *lineSplitter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.add(p)
			return n, nil
		}
		s.add(p[:end])
		s.emit(s.line, s.cut)
		s.line, s.cut = s.line[:0], false
		p = p[end+1:]
	}
}

func (s *lineSplitter) add(p []byte) {
	keep := min(len(p), s.max-len(s.line))
	s.line = append(s.line, p[:keep]...)
	s.cut = s.cut || keep < len(p)
}

// flush emits a last line that has no end.
func (s *lineSplitter) flush() {
	if len(s.line) > 0 {
		s.emit(s.line, s.cut)
		s.line, s.cut = nil, false
	}
}

// handshake hands the first line of a driver's stdout to go-plugin and then
// ends; what else the driver prints there is logged.
type handshake struct {
	arrived chan struct{} // closed when the fields below are set
	first   string
	line    *bytes.Reader
}

func newHandshake() *handshake { return &handshake{arrived: make(chan struct{})} }

func (h *handshake) Read(b []byte) (int, error) {
	<-h.arrived
	return h.line.Read(b)
}

func (h *handshake) readFrom(r io.Reader, rest *outputLog) {
	first := true
	split := &lineSplitter{max: maxHandshake, emit: func(line []byte, cut bool) {
		if first {
			first = false
			h.set(line)
			return
		}
		rest.say("stdout", line, cut)
	}}
	_, _ = io.Copy(split, r) // ends when the process does
	split.flush()
	if first {
		h.set(nil) // go-plugin reports a driver that prints no handshake
	}
}

// fault says what is wrong with the first line; empty: nothing, or there is none yet.
func (h *handshake) fault() string {
	select {
	case <-h.arrived:
		return handshakeFault(strings.TrimSpace(h.first))
	default:
		return ""
	}
}

// handshakeFault compares a line with CORE|VERSION|NETWORK|ADDRESS|grpc|CERTIFICATE.
func handshakeFault(line string) string {
	version := fmt.Sprint(driverrpc.Handshake().ProtocolVersion)
	switch parts := strings.Split(line, "|"); {
	case line == "":
		return "it closed its stdout without a handshake"
	case len(parts) < 5 || parts[0] != fmt.Sprint(plugin.CoreProtocolVersion):
		return fmt.Sprintf("the first line on its stdout is %q, not the handshake of a driver: nothing else may be printed there", cleanLine([]byte(line[:min(len(line), maxQuoted)])))
	case parts[1] != version:
		return fmt.Sprintf("it speaks version %q of the driver protocol, and this server speaks %s", cleanLine([]byte(parts[1])), version)
	case parts[4] != "grpc":
		return fmt.Sprintf("it serves %q, and drivers serve grpc", cleanLine([]byte(parts[4])))
	}
	return ""
}

// maxQuoted is how much of a line that is not a handshake is quoted.
const maxQuoted = 200 // bytes

func (h *handshake) set(line []byte) {
	h.first = string(line)
	h.line = bytes.NewReader(append(bytes.Clone(line), '\n'))
	close(h.arrived)
}

// outputLog logs the output of a driver. It is untrusted: lines are cut, cleaned and
// limited in rate.
type outputLog struct {
	log        *slog.Logger
	journal    *journal
	generation int
	secret     *redactor // nil: the driver knows none

	mu      sync.Mutex // guards the fields below
	tail    []outputLine
	budget  float64 // lines that may be logged now
	counted time.Time
	dropped int
}

// outputLine is one line as it was printed.
type outputLine struct {
	line []byte
	cut  bool
}

func newOutputLog(log *slog.Logger, j *journal, generation int, secret *redactor) *outputLog {
	return &outputLog{log: log, journal: j, generation: generation, secret: secret, budget: linesAtOnce, counted: time.Now()}
}

// readFrom logs everything that is read.
func (s *outputLog) readFrom(r io.Reader, stream string) {
	split := s.writer(stream)
	_, _ = io.Copy(split, r) // ends when the process does
	split.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportDropped()
}

// writer logs every line written to it. It is for one goroutine.
func (s *outputLog) writer(stream string) *lineSplitter {
	return &lineSplitter{max: maxLine, emit: func(line []byte, cut bool) { s.say(stream, line, cut) }}
}

func (s *outputLog) say(stream string, line []byte, cut bool) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = append(s.tail, outputLine{bytes.Clone(line), cut})
	if len(s.tail) > tailLines {
		s.tail = s.tail[1:]
	}
	now := time.Now()
	s.budget = min(linesAtOnce, s.budget+now.Sub(s.counted).Seconds()*linesPerSecond)
	s.counted = now
	if s.budget < 1 { // cleaning a flood would slow down the driver
		s.dropped++
		return
	}
	s.budget--
	s.reportDropped()
	level, text := levelOf(line), s.text(outputLine{line, cut})
	s.journal.say(Line{At: now, Generation: s.generation, Stream: stream, Level: level.String(), Text: text})
	s.log.Log(context.Background(), level, "driver says", "stream", stream, "line", text)
}

// text returns a line that may be shown.
func (s *outputLog) text(l outputLine) string {
	text := s.secret.hide(cleanLine(readable(l.line)))
	if l.cut {
		text += " …"
	}
	return text
}

// reportDropped needs the lock.
func (s *outputLog) reportDropped() {
	if s.dropped > 0 {
		s.log.Warn("driver prints too much, lines dropped", "lines", s.dropped)
		s.journal.say(Line{At: time.Now(), Generation: s.generation, Stream: "host", Level: slog.LevelWarn.String(),
			Text: fmt.Sprintf("%d lines dropped: it prints too much", s.dropped)})
		s.dropped = 0
	}
}

// last returns the last lines, for the error of a driver that does not start.
func (s *outputLog) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := make([]string, len(s.tail))
	for i, l := range s.tail {
		shown[i] = s.text(l)
	}
	return strings.Join(shown, " | ")
}

// levelOf reads the level of a slog JSON line; any other line is information.
func levelOf(line []byte) slog.Level {
	var record struct {
		Level slog.Level `json:"level"`
	}
	if json.Unmarshal(line, &record) != nil {
		return slog.LevelInfo
	}
	return max(slog.LevelDebug, min(slog.LevelError, record.Level))
}

// readable converts a slog JSON line to slog's text format; any other line stays as it
// is.
func readable(line []byte) []byte {
	var record map[string]any
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &record) != nil {
		return line
	}
	message, ok := record[slog.MessageKey].(string)
	if !ok {
		return line
	}
	var b bytes.Buffer
	b.WriteString(message)
	for _, key := range slices.Sorted(maps.Keys(record)) {
		switch key {
		case slog.MessageKey, slog.LevelKey, slog.TimeKey:
			continue
		}
		value, err := json.Marshal(record[key])
		if text, simple := record[key].(string); simple && !strings.ContainsAny(text, " \"=") {
			value = []byte(text)
		}
		if err == nil {
			fmt.Fprintf(&b, " %s=%s", key, value)
		}
	}
	return b.Bytes()
}

// cleanLine makes a line of a process safe to print.
func cleanLine(line []byte) string { return plain.LineWithin(string(line), maxLine) }
