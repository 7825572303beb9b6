package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
)

// The eras of the protocol that clients speak.
const (
	legacyEra = "2025-11-25"
	modernEra = "2026-07-28"
)

// inBothEras runs a test for a client of each era.
func inBothEras(t *testing.T, test func(t *testing.T, era string)) {
	t.Helper()
	for _, era := range []string{legacyEra, modernEra} {
		t.Run(era, func(t *testing.T) {
			t.Parallel() // they mostly wait
			test(t, era)
		})
	}
}

// Capabilities that clients declare.
const (
	hasForms   = `{"elicitation":{"form":{}}}`
	hasModel   = `{"sampling":{}}`
	hasBoth    = `{"elicitation":{"form":{}},"sampling":{}}`
	hasNothing = `{}`
)

// mcpClient is a client that does with questions what its test says.
type mcpClient struct {
	carrier
	t   *testing.T
	b   *program
	era string
	can string // its capabilities
	// token is the progress token of its calls; empty: they have none.
	token string
	// again is another client that reaches the server the same way.
	again func(t *testing.T, can string) *mcpClient
}

// carrier brings what a client sends to a server.
type carrier interface {
	// open sends a request, which gets an id, and hears what is said to it.
	open(method, name string, message func(id int) string) (exchange, error)
	// tell sends what has no reply.
	tell(message string) error
	// lately is the end of the server's log.
	lately() string
	// vanish ends the connection in the middle of an exchange.
	vanish(e exchange)
}

// exchange is what a server says to a request.
type exchange interface {
	// hears the next message that is not a notification.
	message() (string, error)
	// leave gives a request up that has no reply yet.
	leave()
}

// overHTTP sends each message by itself.
type overHTTP struct {
	*program
	t       *testing.T
	era     string
	session string // of the legacy era
	calls   int
}

// visit introduces a client to the server over HTTP.
func (b *program) visit(t *testing.T, era, can string) *mcpClient {
	t.Helper()
	o := &overHTTP{program: b, t: t, era: era}
	c := &mcpClient{carrier: o, t: t, b: b, era: era, can: can}
	c.again = func(t *testing.T, can string) *mcpClient { return b.visit(t, era, can) }
	if era == modernEra {
		return c
	}
	res, err := o.send("", "", fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,`+
		`"clientInfo":{"name":"guest","version":"1"}}}`, era, can))
	if err != nil {
		t.Fatalf("%v\n%s", err, b.lately())
	}
	defer res.Body.Close()
	if o.session = res.Header.Get("Mcp-Session-Id"); o.session == "" {
		t.Fatalf("initialize = %d", res.StatusCode)
	}
	return c
}

// send posts a message and leaves its reply to be read.
func (o *overHTTP) send(method, name, message string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodPost, o.url+"/mcp", strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", o.era)
	if o.session != "" {
		req.Header.Set("Mcp-Session-Id", o.session)
	}
	if o.era == modernEra {
		req.Header.Set("Mcp-Method", method)
		req.Header.Set("Mcp-Name", name)
	}
	return o.client.Do(req)
}

func (o *overHTTP) open(method, name string, message func(id int) string) (exchange, error) {
	o.calls++
	res, err := o.send(method, name, message(o.calls)) //nolint:bodyclose // leave does
	if err != nil {
		return nil, err
	}
	return &response{res, bufio.NewReader(res.Body)}, nil
}

func (o *overHTTP) tell(message string) error {
	res, err := o.send("", "", message)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func (o *overHTTP) vanish(e exchange) { e.leave() }

// response is one JSON text, or a stream of them.
type response struct {
	*http.Response
	lines *bufio.Reader
}

func (r *response) leave() { _ = r.Body.Close() }

func (r *response) message() (string, error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		text, err := io.ReadAll(r.lines)
		return string(text), err
	}
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && !strings.Contains(data, `"method":"notifications/`) {
			return data, nil
		}
	}
}

// toolCall is a call of a tool in progress.
type toolCall struct {
	*mcpClient
	exchange
	tool, args string
}

// call sends a tool call, whose first message is read with hear.
func (c *mcpClient) call(tool, args string) *toolCall {
	c.t.Helper()
	k := &toolCall{mcpClient: c, tool: tool, args: args}
	k.post("")
	return k
}

// post sends the call, in the modern era with more parameters.
func (k *toolCall) post(more string) {
	k.t.Helper()
	var err error
	if k.exchange, err = k.started(k.tool, k.args, more); err != nil {
		k.t.Fatalf("%s: %v\n%s", k.tool, err, k.lately())
	}
}

func (c *mcpClient) started(tool, args, more string) (exchange, error) {
	var meta []string
	if c.token != "" {
		meta = append(meta, fmt.Sprintf(`"progressToken":%q`, c.token))
	}
	if c.era == modernEra {
		meta = append(meta, fmt.Sprintf(`"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":{"name":"guest","version":"1"},`+
			`"io.modelcontextprotocol/clientCapabilities":%s`, c.era, c.can))
	}
	if len(meta) > 0 {
		more += `,"_meta":{` + strings.Join(meta, ",") + `}`
	}
	return c.open("tools/call", tool, func(id int) string { return rpcCall(id, tool, args, more) })
}

// lately is the end of the server's log.
func (b *program) lately() string { return ending(b.stderr.String()) }

func ending(log string) string { return "… " + log[max(0, len(log)-2000):] }

// aside sends a tool call whose messages are read elsewhere: of the legacy era,
// where a call that joins an open question hears nothing before its reply.
func (c *mcpClient) aside(tool, args string) <-chan string {
	said := make(chan string, 1)
	go func() {
		defer close(said)
		e, err := c.started(tool, args, "")
		if err != nil {
			said <- err.Error()
			return
		}
		defer e.leave()
		var all strings.Builder
		for reply := false; !reply; {
			text, err := e.message()
			if err != nil {
				text = err.Error()
			}
			all.WriteString(text)
			reply = err != nil || !strings.Contains(text, `"method"`)
		}
		said <- all.String()
	}()
	return said
}

// posed is a question of the server.
type posed struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	id     string          // of the request, or the key of the answer
	state  string          // what goes back with the answer in the modern era
}

// text is what a person or a model reads of the question.
func (q *posed) text() string {
	var p struct {
		Message  string `json:"message"`
		System   string `json:"systemPrompt"`
		Messages []struct {
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"messages"`
	}
	_ = json.Unmarshal(q.Params, &p) // what it does not hold is not read
	text := p.Message + p.System
	for _, m := range p.Messages {
		text += "\n" + m.Content.Text
	}
	return text
}

// uttered is what the server said to a call: one of these.
type uttered struct {
	question *posed
	reply    *api.StepReply
	refusal  string

	raw     json.RawMessage // of the reply
	message string          // that said it
}

// hear reads until the server asks, replies or refuses.
func (k *toolCall) hear() (h uttered) {
	k.t.Helper()
	text, err := k.message()
	if err != nil {
		k.t.Fatalf("%s: %v before a reply\n%s", k.tool, err, k.lately())
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		Result struct {
			State      string           `json:"requestState"`
			Requests   map[string]posed `json:"inputRequests"`
			IsError    bool             `json:"isError"`
			Structured json.RawMessage  `json:"structuredContent"`
		} `json:"result"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		k.t.Fatalf("%s = %.400q: %v\n%s", k.tool, text, err, k.lately())
	}
	if m.Method != "" {
		return uttered{question: &posed{m.Method, m.Params, string(m.ID), ""}}
	}
	k.leave()
	for key, q := range m.Result.Requests {
		q.id, q.state = key, m.Result.State
		return uttered{question: &q}
	}
	if m.Error != nil || m.Result.IsError {
		return uttered{refusal: text, message: text}
	}
	h = uttered{reply: new(api.StepReply), raw: m.Result.Structured, message: text}
	k.decode(h.raw, h.reply)
	return h
}

func (k *toolCall) decode(raw json.RawMessage, into any) {
	k.t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		k.t.Fatalf("%s: %v in %.400s", k.tool, err, raw)
	}
}

// ask is hear where the server has to ask.
func (k *toolCall) ask(method string) *posed {
	k.t.Helper()
	h := k.hear()
	if h.question == nil || h.question.Method != method {
		k.t.Fatalf("%s: the server says %s, want it to ask %s\n%s", k.tool, h, method, k.lately())
	}
	return h.question
}

// step is hear where the server has to reply.
func (k *toolCall) step() *api.StepReply {
	k.t.Helper()
	h := k.hear()
	if h.reply == nil {
		k.t.Fatalf("%s: the server says %s, want a reply\n%s", k.tool, h, k.lately())
	}
	return h.reply
}

// String is what was uttered, for people.
func (h uttered) String() string {
	switch {
	case h.question != nil:
		return h.question.Method + " " + string(h.question.Params)
	case h.reply != nil:
		return fmt.Sprintf("%+v", *h.reply)
	}
	return h.refusal
}

// answer gives the result of a question. The next message is read with hear.
func (k *toolCall) answer(q *posed, result string) {
	k.t.Helper()
	if q.Method == "elicitation/create" {
		time.Sleep(asLongAsAPerson)
	}
	k.atOnce(q, result)
}

// asLongAsAPerson is how long people take for an answer: a faster one is the client's own.
const asLongAsAPerson = 1200 * time.Millisecond

// atOnce answers a question as a client does that asks nobody.
func (k *toolCall) atOnce(q *posed, result string) {
	k.t.Helper()
	if k.era == modernEra {
		k.post(fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:%s}`, q.state, q.id, result))
		return
	}
	k.told(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.id, result))
}

// unanswered comes back without an answer, which only a modern client can.
func (k *toolCall) unanswered(q *posed) {
	k.t.Helper()
	k.post(fmt.Sprintf(`,"requestState":%q,"inputResponses":{}`, q.state))
}

func (k *toolCall) told(message string) {
	k.t.Helper()
	if err := k.tell(message); err != nil {
		k.t.Fatalf("%s: %v\n%s", k.tool, err, k.lately())
	}
}

// refuse answers a question with an error, which only the legacy era can; a
// modern client that refuses does not come back.
func (k *toolCall) refuse(q *posed, code int) {
	k.t.Helper()
	k.told(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, q.id, code))
}

// Answers of people and models.
func filled(content string) string { return `{"action":"accept","content":` + content + `}` }

func says(text string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`{"role":"assistant","content":{"type":"text","text":%s},"model":"m-1","stopReason":"endTurn"}`, quoted)
}

// begun opens a run and returns its first reply, which must not ask.
func (c *mcpClient) begun(uri, more string) *api.StepReply {
	c.t.Helper()
	return c.call("kairos_begin", fmt.Sprintf(`{"uri":%q%s}`, uri, more)).step()
}

// next calls kairos_next for the open step of a run and leaves the proof to the server.
func (c *mcpClient) next(r *api.StepReply, more string) *toolCall {
	c.t.Helper()
	return c.call("kairos_next", fmt.Sprintf(`{"uri":%q,"run_id":%q%s}`, r.CurrentStep.URI, r.RunID, more))
}

// submit calls kairos_next with the agent's own solution of the open step.
func (c *mcpClient) submit(r *api.StepReply, kind, evidence string) *toolCall {
	c.t.Helper()
	return c.next(r, fmt.Sprintf(`,"solution":{"type":%[1]q,"nonce":%[2]q,"proof_hash":%[3]q,%[1]q:%[4]s}`,
		kind, r.Challenge.Nonce, r.Challenge.ProofHash, evidence))
}

// attest closes a run and says what the server makes of it.
func (c *mcpClient) attest(r *api.StepReply) *api.AttestReply {
	c.t.Helper()
	a := new(api.AttestReply)
	c.use("kairos_attest", fmt.Sprintf(`{"uri":%q,"run_id":%q,"outcome":"success","message":"done"}`, r.CurrentStep.URI, r.RunID), a)
	return a
}

// use calls a tool that asks nobody and decodes its reply.
func (c *mcpClient) use(tool, args string, reply any) {
	c.t.Helper()
	k := c.call(tool, args)
	h := k.hear()
	if h.reply == nil {
		c.t.Fatalf("%s: %s\n%s", tool, h, c.lately())
	}
	k.decode(h.raw, reply)
}

// search is the reply to a search.
func (c *mcpClient) search(query string) string {
	c.t.Helper()
	var found json.RawMessage
	c.use("kairos_search", fmt.Sprintf(`{"query":%s}`, quoted(query)), &found)
	return string(found)
}

// opens stores a protocol and begins a run of it.
func (c *mcpClient) opens(doc string) *api.StepReply {
	c.t.Helper()
	var minted api.MintReply
	c.use("kairos_mint", fmt.Sprintf(`{"markdown_doc":%s,"llm_model_id":"test","force_update":true}`, quoted(doc)), &minted)
	return c.begun(minted.Items[0].URI, "")
}

// told is the reply to a kairos_next without a solution, which must have a code.
func (c *mcpClient) told(r *api.StepReply, code string) *api.StepReply {
	c.t.Helper()
	return expect(c.t, c.next(r, "").step(), code)
}

// approving is step where a person approves what they are asked, and how often they did.
func (k *toolCall) approving() (reply *api.StepReply, approvals int) {
	k.t.Helper()
	for {
		h := k.hear()
		if h.question == nil {
			if h.reply == nil {
				k.t.Fatalf("%s: %s\n%s", k.tool, h, k.lately())
			}
			return h.reply, approvals
		}
		approvals++
		k.answer(h.question, filled(yes))
	}
}

// approve is kairos_next for which a person approves what they are asked.
func (c *mcpClient) approve(r *api.StepReply) *api.StepReply {
	c.t.Helper()
	reply, _ := c.next(r, "").approving()
	return reply
}

// timeline is what the server has recorded of a run, as the operator sees it.
func (b *program) timeline(t *testing.T, id string) archive.Timeline {
	t.Helper()
	out, err := b.program("runs", "show", id, "-o", "json").Output()
	if err != nil {
		t.Fatalf("runs show: %v %s", err, out)
	}
	var line archive.Timeline
	if err := json.Unmarshal(out, &line); err != nil {
		t.Fatalf("runs show: %v in %.400s", err, out)
	}
	return line
}

// happened lists the kinds of what happened, and for an acceptance who vouches.
func happened(line archive.Timeline) string {
	all := make([]string, len(line.Moments))
	for i, m := range line.Moments {
		all[i] = m.What
		if m.What == "accepted" {
			all[i] += "(" + string(m.Provenance) + ")"
		}
	}
	return strings.Join(all, " ")
}
