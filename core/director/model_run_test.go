package director_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// The model is a run as its promises describe it, without drivers, store or
// concurrency: what a call may reply where the run stands, and where it stands then.

// The kinds of steps.
const (
	reported  = "shell"      // the agent reports its evidence
	personal  = "user_input" // a person is asked through the client
	gated     = "mcp"        // the agent reports, after a person has approved
	effectful = "comment"    // the driver changes the world once it has evidence
	free      = ""           // no challenge
)

// call is one call of a client, with everything that it sends.
type call struct {
	what   string // next, resume, answer, attest, abandon, redact, decide
	by     string // empty: the owner of the run
	server int    // of the two that share the database

	// next
	solution  string // as it is sent; empty: none
	malformed bool
	elsewhere bool // the nonce is of another run of the same owner
	nonce     string
	hash      string // empty: left out
	typ       string
	supplied  bool   // it holds evidence
	ok        bool   // of the evidence
	marker    string // in the evidence or the answer, like no other

	seq      int64  // answer
	action   string // answer: accept, decline, cancel
	outcome  string // attest
	step     int    // redact, from 1
	happened bool   // decide
}

// payload tells whether two calls are the same.
func (c call) payload() string {
	if c.what == "answer" {
		return c.action + c.marker
	}
	return c.solution
}

// recorded is what the same call has to get again.
type recordedReply struct {
	payload string
	reply   string
}

type modelQuestion struct {
	seq       int64
	earlier   []int64
	dismissed int
	closed    time.Time
}

// modelRun is a value: take returns the next one and leaves this one alone.
type modelRun struct {
	id    run.ID
	uris  []string
	kinds []string

	state   run.State // Open, Complete, Closed, Ended; a question does not count
	expired bool      // its time has passed, and nobody may have noticed
	outcome string

	step     int // open, from 0
	nonce    string
	failures int
	counted  int      // of all steps
	held     []string // markers of evidence that is not judged yet
	declined bool
	declines int
	question *modelQuestion
	seq      int64
	approved time.Time      // zero: not
	unknown  bool           // nobody knows what came of a call that acts
	settled  bool           // a person has told that it did not happen
	decided  map[string]int // how often that was told of the deed with this marker

	proofs   []string
	markers  []string // by step; empty: erased, or without evidence
	solvedBy map[string]int
	replaced map[string]bool
	recorded map[string]recordedReply
	begun    map[string]string // by nonce, the payload of the call for which a driver acted and that has no reply
}

func (m modelRun) clone() modelRun {
	m.held, m.proofs, m.markers = slices.Clone(m.held), slices.Clone(m.proofs), slices.Clone(m.markers)
	m.solvedBy, m.replaced, m.recorded, m.decided = maps.Clone(m.solvedBy), maps.Clone(m.replaced), maps.Clone(m.recorded), maps.Clone(m.decided)
	m.begun = maps.Clone(m.begun)
	if m.question != nil {
		q := *m.question
		q.earlier = slices.Clone(q.earlier)
		m.question = &q
	}
	return m
}

func (m modelRun) live() bool {
	return !m.expired && (m.state == run.Open || m.state == run.Complete)
}

func (m modelRun) complete() bool { return m.step == len(m.kinds) }

func (m modelRun) kind() string { return m.kinds[m.step] }

// mayAct: the call may have the driver of the open step act.
func (m modelRun) mayAct(c call) bool {
	return !m.complete() && m.kind() == effectful && (m.settled || c.supplied && c.typ == effectful)
}

func (m modelRun) proofHash() string {
	if len(m.proofs) == 0 {
		return run.Genesis
	}
	return m.proofs[len(m.proofs)-1]
}

// conditions are what a call depends on beside the run.
type conditions struct {
	now    time.Time
	broken bool // the driver of reported steps
	dies   bool // the driver of acting steps, after it has acted
	shared bool // another call on the run is under way
	acts   bool // and it may have the driver of the open step act
	// begun tells whether the store holds that a driver has begun to act for the call.
	begun func(recordKey) bool
}

// branch is one way in which a call can have gone.
type branch struct {
	m   modelRun
	why string // not empty: what the call replied cannot have been so
}

func wrong(format string, args ...any) []branch { return []branch{{why: fmt.Sprintf(format, args...)}} }

// take returns how the run may stand after a call that got this; more than one way
// only where the call does not tell.
func (m modelRun) take(c call, at conditions, got result) []branch {
	if fault.CodeOf(got.err) == fault.Conflict && at.shared {
		return []branch{{m: m}} // it lost against the others, and changed nothing
	}
	if c.by != "" && !c.malformed {
		return m.refused(got, fault.NotFound)
	}
	m = m.clone()
	switch c.what {
	case "next":
		return m.next(c, at, got)
	case "answer":
		return m.answer(c, at, got)
	}
	if c.what == "attest" {
		return m.attest(c, got)
	}
	if c.what == "redact" {
		return m.redact(c, got)
	}
	if c.what == "decide" {
		return m.decide(got)
	}
	if !m.live() {
		return m.refused(got, fault.NoOpenRun)
	}
	switch c.what {
	case "resume":
		if !m.complete() {
			if got.reply == nil || got.reply.Challenge.Nonce == m.nonce {
				return wrong("a resumed run shows no fresh nonce: %s", got)
			}
			m.replaced[m.nonce] = true
			m.nonce = got.reply.Challenge.Nonce
			if m.due(at) {
				m.nonce = "" // nobody has seen the one of the step that is solved now
			}
		}
		return m.shows(at, got, "")
	case "abandon":
		m.state, m.question = run.Ended, nil
		return m.silent(got)
	}
	return wrong("no such call: %s", c.what)
}

// due: the open step has evidence that any call gets accepted now.
func (m modelRun) due(at conditions) bool {
	switch m.kind() {
	case reported:
		return len(m.held) > 0 && !strings.HasPrefix(m.held[0], "!") && !at.broken
	case effectful:
		return m.settled && !at.dies
	}
	return false
}

func (m modelRun) refused(got result, codes ...fault.Code) []branch {
	if got.err == nil || !slices.Contains(codes, fault.CodeOf(got.err)) {
		return wrong("want the error %v: %s", codes, got)
	}
	return []branch{{m: m}}
}

func (m modelRun) silent(got result) []branch {
	if got.err != nil {
		return wrong("want no error: %s", got)
	}
	return []branch{{m: m}}
}

// replays: the call was made before, and the reply is the same to the byte.
func (m modelRun) replays(rec recordedReply, got result) []branch {
	if got.reply == nil || got.told() != rec.reply {
		return wrong("the reply to a repeated call differs from the recorded one\n%s\n%s", got, rec.reply)
	}
	return []branch{{m: m}}
}

// shows: the reply shows the run as it stands, with this code.
func (m modelRun) shows(at conditions, got result, code string) []branch {
	codes := []string{code}
	switch {
	case m.complete():
	case code == "" && m.unknown:
		codes = []string{"OUTCOME_UNKNOWN"}
	case m.kind() == effectful && m.settled:
		return m.act(m.held[0], recordKey{}, at, got, code)
	case m.kind() == reported && len(m.held) > 0 && !at.broken:
		return m.rejudge(recordKey{}, at, got, code)
	case code == "" && m.kind() == effectful && at.acts:
		codes = append(codes, "OUTCOME_UNKNOWN")
	case code == "" && m.kind() == reported && at.broken:
		codes = append(codes, "DRIVER_UNAVAILABLE")
	}
	if why := m.showsAs(got, codes); why != "" {
		return wrong("%s", why)
	}
	return []branch{{m: m}}
}

func (m modelRun) showsAs(got result, codes []string) string {
	r := got.reply
	switch {
	case r == nil:
		return fmt.Sprintf("want a reply with one of the codes %q: %s", codes, got)
	case !slices.Contains(codes, r.ErrorCode):
		return fmt.Sprintf("want one of the codes %q: %s", codes, got)
	case r.RunID != string(m.id) || r.StepIndex != min(m.step+1, len(m.kinds)) || r.StepCount != len(m.kinds):
		return fmt.Sprintf("want step %d of %d of run %s: %s", m.step+1, len(m.kinds), m.id, got)
	case r.Challenge.Nonce != m.nonce:
		return fmt.Sprintf("want nonce %q: %s", m.nonce, got)
	case r.Challenge.ProofHash != m.proofHash():
		return fmt.Sprintf("want proof hash %q: %s", m.proofHash(), got)
	case r.RetryCount != nil && *r.RetryCount != m.failures:
		return fmt.Sprintf("want retry_count %d: %s", m.failures, got)
	}
	return ""
}

// fails: the call is counted against the step.
func (m modelRun) fails(at conditions, got result, code fault.Code) []branch {
	m.failures++
	m.counted++
	if at.shared && (m.unknown || m.settled) && got.reply != nil && got.reply.ErrorCode == string(code) && got.reply.Challenge.Nonce != m.nonce {
		// Somebody decided before it replied, or it took what was decided.
		out := []branch{{m: m}}
		for _, marker := range m.held {
			out = append(out, m.accept(marker, recordKey{}, at, got, string(code))...)
		}
		return out
	}
	shown := string(code)
	if m.failures >= 3 && !m.due(at) {
		shown = "MAX_RETRIES_EXCEEDED"
	}
	return m.shows(at, got, shown)
}

// accept: the step is solved with the evidence of this marker, and the reply shows
// the next one. key is what the reply is recorded under, if it is.
func (m modelRun) accept(marker string, key recordKey, at conditions, got result, code string) []branch {
	if got.reply == nil {
		return wrong("want a reply that the step is solved: %s", got)
	}
	hash, fresh := got.reply.Challenge.ProofHash, got.reply.Challenge.Nonce
	_, solved := m.solvedBy[fresh]
	if hash == m.proofHash() || hash == "" || slices.Contains(m.proofs, hash) || solved || m.replaced[fresh] ||
		(fresh == "") != (m.step+1 == len(m.kinds)) || fresh != "" && fresh == m.nonce {
		return wrong("want a fresh nonce and a new proof: %s", got)
	}
	m = m.solved(marker, hash, fresh)
	return m.keep(key, m.shows(at, got, code), got)
}

func (m modelRun) solved(marker, hash, fresh string) modelRun {
	if m.nonce != "" {
		m.solvedBy[m.nonce] = m.step
	}
	m.proofs, m.markers = append(m.proofs, hash), append(m.markers, marker)
	m.step++
	m.nonce, m.failures, m.held, m.declined, m.declines, m.question = fresh, 0, nil, false, 0, nil
	m.approved, m.unknown, m.settled = time.Time{}, false, false
	if m.complete() {
		m.state = run.Complete
	}
	return m
}

// keep notes the reply for the same call again.
func (m modelRun) keep(key recordKey, branches []branch, got result) []branch {
	if key.name == "" || got.reply == nil {
		return branches
	}
	for _, b := range branches {
		if b.why == "" {
			b.m.recorded[key.name] = recordedReply{payload: key.payload, reply: got.told()}
			delete(b.m.begun, key.name)
		}
	}
	return branches
}

// recordKey is what a reply is recorded under, and for what payload.
type recordKey struct {
	name, payload string
}

func (m modelRun) next(c call, at conditions, got result) []branch {
	if c.malformed {
		return m.refused(got, fault.InvalidArgument)
	}
	if c.elsewhere {
		return m.refused(got, fault.NonceMismatch)
	}
	_, isSolved := m.solvedBy[c.nonce]
	used := c.nonce != m.nonce && (isSolved || m.replaced[c.nonce])
	if rec, ok := m.recorded[c.nonce]; ok && used && rec.payload == c.payload() {
		return m.replays(rec, got)
	}
	switch {
	case !m.live():
		return m.refused(got, fault.NoOpenRun)
	case used && c.supplied && !m.complete() && m.begun[c.nonce] != c.payload():
		return m.halts(got, "NONCE_MISMATCH")
	case used, m.complete():
		return m.shows(at, got, "")
	case c.supplied && c.nonce == "":
		return m.either(m.shows(at, got, "MISSING_FIELD"), m.shows(at, got, ""))
	case c.nonce != "" && c.nonce != m.nonce:
		return m.fails(at, got, fault.NonceMismatch)
	case c.hash != "" && c.hash != m.proofHash():
		return m.fails(at, got, fault.ProofHashMismatch)
	case c.hash == "" && c.supplied && m.kind() != free:
		return m.fails(at, got, fault.MissingField)
	}
	return m.work(c, at, got)
}

// halts: the reply shows where the run stands and nothing is judged.
func (m modelRun) halts(got result, codes ...string) []branch {
	if why := m.showsAs(got, codes); why != "" {
		return wrong("%s", why)
	}
	return []branch{{m: m}}
}

// either is the first that the reply fits.
func (modelRun) either(one, other []branch) []branch {
	for _, b := range one {
		if b.why == "" {
			return one
		}
	}
	return other
}

// work: the envelope is right, and the step is worked on.
func (m modelRun) work(c call, at conditions, got result) []branch {
	key := recordKey{}
	if c.supplied {
		key = recordKey{c.nonce, c.payload()}
	}
	switch m.kind() {
	case free:
		if c.solution == "" {
			return m.shows(at, got, "MISSING_FIELD")
		}
		if !c.supplied {
			c.marker = "" // only the placeholder is evidence
		}
		return m.accept(c.marker, key, at, got, "")
	case personal:
		return m.ask(c, key, at, got)
	case gated:
		if m.approved.IsZero() || !at.now.Before(m.approved.Add(time.Hour)) {
			m.approved = time.Time{}
			if c.supplied && m.declined {
				return m.fails(at, got, fault.UserDeclined)
			}
			return m.asks(c, at, got)
		}
	case effectful:
		switch {
		case m.unknown:
			return m.halts(got, "OUTCOME_UNKNOWN")
		case m.settled:
			return m.act(m.held[0], key, at, got, "")
		case c.supplied && c.typ == effectful:
			return m.act(c.marker, key, at, got, "")
		case at.acts && got.reply != nil && got.reply.ErrorCode == "OUTCOME_UNKNOWN":
			return m.halts(got, "OUTCOME_UNKNOWN")
		}
	case reported:
		if len(m.held) > 0 && !at.broken {
			return m.rejudge(key, at, got, "")
		}
		if len(m.held) > 0 {
			return m.halts(got, "DRIVER_UNAVAILABLE")
		}
		if at.broken {
			return m.unserved(c, got)
		}
	}
	return m.judged(c, key, at, got)
}

// rejudge: evidence that came while its driver did not answer is judged now.
func (m modelRun) rejudge(key recordKey, at conditions, got result, code string) []branch {
	if strings.HasPrefix(m.held[0], "!") {
		m.held = nil
		return m.fails(at, got, "COMMAND_FAILED")
	}
	return m.accept(m.held[0], key, at, got, code)
}

// unserved: the driver that judges does not answer, so nothing is counted. The
// evidence may be kept for it.
func (m modelRun) unserved(c call, got result) []branch {
	if c.supplied && c.typ != m.kind() && got.reply != nil && got.reply.ErrorCode != "DRIVER_UNAVAILABLE" {
		return m.fails(conditions{broken: true}, got, fault.TypeMismatch)
	}
	out := m.halts(got, "DRIVER_UNAVAILABLE", "MISSING_FIELD")
	if c.supplied && c.typ == m.kind() && out[0].why == "" {
		kept := m.clone()
		kept.held = []string{c.marker}
		if !c.ok {
			kept.held = []string{"!" + c.marker}
		}
		out = append(out, branch{m: kept})
	}
	return out
}

// judged: the agent's report is judged, if there is one.
func (m modelRun) judged(c call, key recordKey, at conditions, got result) []branch {
	switch {
	case !c.supplied:
		return m.halts(got, "MISSING_FIELD")
	case c.typ != m.kind():
		return m.fails(at, got, fault.TypeMismatch)
	case !c.ok && m.kind() != effectful:
		m.approved = time.Time{}
		m.question = nil
		return m.fails(at, got, "COMMAND_FAILED")
	}
	return m.accept(c.marker, key, at, got, "")
}

// act: the driver changes the world with the evidence. A call that is under way, or
// that was cut short, is not made again.
func (m modelRun) act(marker string, key recordKey, at conditions, got result, code string) []branch {
	unknown := cmp.Or(code, "OUTCOME_UNKNOWN")
	ended := fault.CodeOf(got.err) == fault.NoOpenRun
	replaced := got.reply != nil && got.reply.StepIndex == m.step+1 && got.reply.Challenge.Nonce != m.nonce &&
		(m.step+1 < len(m.kinds) || got.reply.ErrorCode != "") // the reply that solves the last step has no nonce
	if at.shared && (ended || replaced) {
		m.lose(marker, key, at)
		return []branch{{m: m}} // another call came before it could tell
	}
	if got.reply != nil && got.reply.ErrorCode == unknown && (at.dies || at.shared) && got.reply.Challenge.Nonce == m.nonce {
		lost := m.clone()
		lost.lose(marker, key, at)
		out := lost.halts(got, unknown)
		if at.shared {
			out = append(out, m.halts(got, unknown)...) // another call is at it, and will end it
		}
		return out
	}
	return m.accept(marker, key, at, got, code)
}

// lose: nobody knows what came of the deed, which the same call asks for again.
func (m *modelRun) lose(marker string, key recordKey, at conditions) {
	m.unknown, m.settled, m.held = true, false, []string{marker}
	if key.name != "" && (!at.shared || at.begun(key)) {
		m.begun[key.name] = key.payload
	}
}

// ask: a person answers, or the agent for them.
func (m modelRun) ask(c call, key recordKey, at conditions, got result) []branch {
	if !c.supplied {
		return m.asks(c, at, got)
	}
	if m.declined {
		return m.fails(at, got, fault.UserDeclined)
	}
	return m.judged(c, key, at, got)
}

// closedLongAgo: the person may be asked again.
func (q *modelQuestion) closedLongAgo(at conditions) bool {
	return !at.now.Before(q.closed.Add(time.Minute))
}

// asks: the person is asked, unless they have declined or closed it too often.
func (m modelRun) asks(c call, at conditions, got result) []branch {
	q := m.question
	other := c.typ != "" && c.typ != m.kind() && c.solution != ""
	switch {
	case m.declined && m.declines >= 3:
		return m.halts(got, "USER_DECLINED")
	case q != nil && q.dismissed >= 3 && got.ask == nil && (!other || !q.closedLongAgo(at)):
		return m.halts(got, "WAITING_FOR_USER")
	case other:
		return m.fails(conditions{}, got, fault.TypeMismatch)
	case got.ask == nil || got.ask.Seq <= m.seq || got.ask.Run != m.id || got.ask.Method != "elicitation/create":
		return wrong("want the person asked with a number above %d: %s", m.seq, got)
	}
	next := modelQuestion{seq: got.ask.Seq}
	if q != nil {
		next.earlier, next.dismissed = append(slices.Clone(q.earlier), q.seq), q.dismissed
	}
	m.question, m.seq = &next, got.ask.Seq
	return []branch{{m: m}}
}

func (m modelRun) answer(c call, at conditions, got result) []branch {
	name := fmt.Sprintf("seq:%d", c.seq)
	if q := m.question; q == nil || q.seq != c.seq {
		return m.late(c, name, at, got)
	}
	key := recordKey{name, c.payload()}
	switch {
	case !m.live():
		return m.refused(got, fault.NoOpenRun)
	case c.action == "decline":
		return m.keep(key, m.decline(at, got), got)
	case c.action == "cancel":
		m.seq++
		m.question.earlier = append(m.question.earlier, m.question.seq)
		m.question.seq, m.question.closed = m.seq, at.now
		m.question.dismissed++
		return m.keep(key, m.halts(got, "WAITING_FOR_USER"), got)
	case m.kind() == personal:
		return m.accept(c.marker, key, at, got, "")
	}
	if got.reply == nil || got.reply.Challenge.Nonce == m.nonce {
		return wrong("want the approved step with a fresh nonce: %s", got)
	}
	m.replaced[m.nonce] = true
	m.nonce, m.approved, m.question, m.declined = got.reply.Challenge.Nonce, at.now, nil, false
	return m.keep(key, m.shows(at, got, ""), got)
}

func (m modelRun) decline(at conditions, got result) []branch {
	m.declined, m.question, m.approved = true, nil, time.Time{}
	m.declines++
	return m.fails(at, got, fault.UserDeclined)
}

// late is an answer to a question that is not open.
func (m modelRun) late(c call, name string, at conditions, got result) []branch {
	if rec, ok := m.recorded[name]; ok {
		if rec.payload == c.payload() {
			return m.replays(rec, got)
		}
		return m.refused(got, fault.Replayed)
	}
	switch q := m.question; {
	case !m.live():
		return m.refused(got, fault.NoOpenRun)
	case q != nil && slices.Contains(q.earlier, c.seq) && c.action == "decline":
		return m.decline(at, got)
	}
	return m.shows(at, got, "")
}

func (m modelRun) attest(c call, got result) []branch {
	a := got.attest
	switch {
	case m.expired && m.state != run.Closed, m.state == run.Ended:
		return m.refused(got, fault.NoOpenRun)
	case got.err != nil || a == nil || a.RunID != string(m.id) || a.Verified != m.complete() || len(a.MissingSteps) != len(m.kinds)-m.step:
		return wrong("want it verified %t, with %d steps missing: %s", m.complete(), len(m.kinds)-m.step, got)
	case m.state == run.Closed && (!a.AlreadyAttested || a.Results[0].Outcome != m.outcome):
		return wrong("want the recorded outcome %s: %s", m.outcome, got)
	case m.state == run.Closed:
		return []branch{{m: m}}
	case a.AlreadyAttested:
		return wrong("want it attested for the first time: %s", got)
	}
	m.state, m.outcome, m.question = run.Closed, c.outcome, nil
	return []branch{{m: m}}
}

func (m modelRun) redact(c call, got result) []branch {
	if c.step > len(m.proofs) {
		return m.refused(got, fault.InvalidArgument)
	}
	m.markers[c.step-1] = ""
	clear(m.recorded) // replies repeat evidence, so all are erased
	clear(m.begun)
	return m.silent(got)
}

func (m modelRun) decide(got result) []branch {
	if !m.unknown || !m.live() {
		return m.refused(got, fault.InvalidArgument)
	}
	m.unknown, m.settled = false, len(m.held) > 0
	if m.settled {
		m.decided[m.held[0]]++
	}
	return m.silent(got)
}

// told is the reply as a client reads it.
func (r result) told() string {
	b, err := json.Marshal(r.reply)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// result is what a call got.
type result struct {
	reply  *api.StepReply
	ask    *director.Ask
	attest *api.AttestReply
	err    error
}

func (r result) String() string {
	switch {
	case r.err != nil:
		return "error " + string(fault.CodeOf(r.err)) + ": " + r.err.Error()
	case r.ask != nil:
		return fmt.Sprintf("question %d of run %s", r.ask.Seq, r.ask.Run)
	case r.attest != nil:
		return fmt.Sprintf("attestation %+v", *r.attest)
	case r.reply != nil:
		return fmt.Sprintf("reply %q step %d nonce %.6s proof %.6s: %.90s", r.reply.ErrorCode, r.reply.StepIndex, r.reply.Challenge.Nonce, r.reply.Challenge.ProofHash, r.reply.Message)
	}
	return "nothing"
}

func (c call) String() string {
	s := fmt.Sprintf("%s%s at %d", c.by, c.what, c.server)
	switch c.what {
	case "next":
		s += fmt.Sprintf(" type %s nonce %.6s proof %.6s evidence %t ok %t %s", c.typ, c.nonce, c.hash, c.supplied, c.ok, c.marker)
	case "answer":
		s += fmt.Sprintf(" %s to %d", c.action, c.seq)
	case "redact":
		s += fmt.Sprintf(" step %d", c.step)
	}
	return s
}
