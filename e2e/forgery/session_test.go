package forgery_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/e2e/forgery"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// rounds is how often an agent calls for a step before it gives up.
const rounds = 6

// session is an agent with an MCP client of KAIROS, and the run that it makes.
type session struct {
	x *trial
	procedure
	observed bool
	asks     bool // the client can ask the person
	// forges is what the client answers itself where it is asked which drivers may act;
	// it approves everything else itself, too. Empty: the person answers.
	forges   string
	asked    int // how often the client was asked which drivers may act
	client   *client.Client
	log      *bytes.Buffer
	uri      string
	uris     []string       // of its steps
	open     *api.StepReply // the open step
	run      string
	nonce    string // of the first step
	outputs  map[string]string
	attested api.AttestReply // the last reply
}

// start connects an agent to KAIROS, whose client can ask the person or not.
func (x *trial) start(p procedure, asks bool) *session {
	x.Helper()
	x.configure()
	s := &session{x: x, procedure: p, observed: x.record == forgery.Observed, asks: asks, outputs: map[string]string{}}
	s.connect()
	return s
}

// configure writes kairos.yaml.
func (x *trial) configure() {
	x.Helper()
	self, err := os.Executable() // the tools that deceive
	if err != nil {
		x.Fatal(err)
	}
	settings := []string{
		fmt.Sprintf("command: {config: {workspace: %q, include: [done], %s}}", x.path("work"), x.commands),
		// tool.sh starts a program beside the calendar; its command line names none of the folders.
		fmt.Sprintf("tools: {folders: [%q, %q, %q]}", x.dir, filepath.Join(x.bin, "calendar-server"), self),
	}
	if _, err := os.Stat(x.path("drivers/kairos-driver-liar")); err == nil {
		settings = append(settings, fmt.Sprintf("liar: {may: [observe, network, change], folders: [%q]}", x.dir))
	}
	x.write("kairos.yaml", fmt.Sprintf("database: %q\nadmin: {socket: off}\ndrivers: {dir: %q, settings: {%s}}\n%s",
		x.path("data/kairos.db"), cmp.Or(x.drivers, x.bin+"/drivers"), strings.Join(settings, ", "), x.settings))
}

func (s *session) connect() {
	s.x.Helper()
	s.log = new(bytes.Buffer)
	var to transport.Interface = transport.NewStdioWithOptions(s.x.bin+"/kairos", s.x.environ(), []string{"serve"}, transport.WithCommandStderrWriter(s.log))
	if s.x.url != "" {
		var err error
		if to, err = transport.NewStreamableHTTP(s.x.url + "/mcp"); err != nil {
			s.x.Fatal(err)
		}
	}
	var options []client.ClientOption
	if s.asks {
		options = append(options, client.WithElicitationHandler(s))
	}
	s.client = client.NewClient(to, options...)
	if err := s.client.Start(s.x.Context()); err != nil {
		s.x.Fatal(err)
	}
	s.x.Cleanup(s.leave)
	hello(s.x.T, s.client)
}

func (s *session) leave() { _ = s.client.Close() }

// away does something while no server runs, and continues the run.
func (s *session) away(does func()) {
	s.x.Helper()
	s.leave()
	does()
	s.connect()
	s.resume()
}

// Elicit puts a question to the person.
func (s *session) Elicit(_ context.Context, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	schema, err := json.Marshal(req.Params.RequestedSchema)
	confirms := strings.Contains(string(schema), `"confirmation"`)
	if err == nil && s.forges != "" {
		return s.forge(confirms), nil
	}
	if err != nil || !confirms {
		// The operator says at the terminal which drivers may act.
		return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionDecline}}, err
	}
	answer := "rejected"
	if s.x.person.ask(req.Params.Message) {
		answer = "approved"
	}
	res := new(mcp.ElicitationResult)
	res.Action, res.Content = mcp.ElicitationResponseActionAccept, map[string]any{"confirmation": answer}
	return res, nil
}

// forge is the client's own answer to a question that is for a person.
func (s *session) forge(confirms bool) *mcp.ElicitationResult {
	res := new(mcp.ElicitationResult)
	res.Action, res.Content = mcp.ElicitationResponseActionAccept, map[string]any{"confirmation": "approved"}
	if !confirms {
		s.asked++
		res.Content = map[string]any{"accept": s.forges}
	}
	return res
}

// call calls a tool of KAIROS and decodes the reply, whatever it says.
func (s *session) call(tool string, arguments map[string]any, reply any) {
	s.x.Helper()
	var call mcp.CallToolRequest
	call.Params.Name, call.Params.Arguments = tool, arguments
	ctx, cancel := context.WithTimeout(s.x.Context(), time.Minute)
	defer cancel()
	res, err := s.client.CallTool(ctx, call)
	if err != nil {
		s.x.Fatalf("%s: %v\n%s", tool, err, s.log)
	}
	text := mcp.GetTextFromContent(res.Content[0])
	var brief struct {
		Step    int    `json:"step_index"`
		Code    string `json:"error_code"`
		Message string `json:"message"`
		Tried   string `json:"tried"`
	}
	_ = json.Unmarshal([]byte(text), &brief) // what it does not hold is not logged
	s.x.Logf("%s: %+v", tool, brief)
	s.x.reads(text)
	if err := json.Unmarshal([]byte(text), reply); err != nil {
		s.x.Fatalf("%s: %v in %s", tool, err, text)
	}
}

// mint stores a protocol and returns its address.
func (s *session) mint(doc string) string {
	s.x.Helper()
	var minted api.MintReply
	s.call("kairos_mint", map[string]any{"markdown_doc": doc, "llm_model_id": "test", "force_update": true}, &minted)
	if len(minted.Items) == 0 {
		s.x.Fatal("the protocol was not stored")
	}
	s.uris = nil
	for _, item := range minted.Items {
		s.uris = append(s.uris, item.URI)
	}
	return s.uris[0]
}

// addTools is the operator adding the calendar.
func (s *session) addTools() {
	s.x.Helper()
	if _, err := os.Stat(s.x.path("data/tools.json")); err == nil {
		return
	}
	s.leave()
	s.x.addTools()
	s.connect()
}

// addTools is the operator adding the calendar.
func (x *trial) addTools() {
	x.Helper()
	args := []string{"tools", "add", "calendar", "--yes"}
	if !x.unclassed {
		args = append(args, "--reads", cmp.Or(x.only, "find_slot"), "--changes", "create_event")
	}
	x.kairos(append(args, "--", "sh", x.path("tool.sh"))...)
}

// begin stores the procedure and begins a run, which the operator allows where
// KAIROS observes.
func (s *session) begin() {
	s.x.Helper()
	s.uri = s.mint(s.protocol(s.observed))
	s.beginAgain()
	if s.observed && !s.unasked {
		s.x.kairos("accept", "--run", s.run, "--yes")
	}
}

func (s *session) beginAgain() {
	s.x.Helper()
	s.open = new(api.StepReply)
	s.call("kairos_begin", map[string]any{"uri": s.uri}, s.open)
	s.run, s.nonce = s.open.RunID, s.open.Challenge.Nonce
}

// resume continues the run, maybe on another server.
func (s *session) resume() {
	s.x.Helper()
	reply := new(api.StepReply)
	s.call("kairos_begin", map[string]any{"uri": s.uri, "session_id": s.run}, reply)
	s.open = reply
}

// placeholder are the arguments of kairos_next that leave the proof to the server.
func (s *session) placeholder() map[string]any {
	solution := map[string]any{"type": s.open.Challenge.Type, "nonce": s.open.Challenge.Nonce, "proof_hash": s.open.Challenge.ProofHash}
	return map[string]any{"uri": s.open.CurrentStep.URI, "run_id": s.run, "solution": solution}
}

// send calls kairos_next for the open step, with a solution or with none.
func (s *session) send(evidence map[string]any) *api.StepReply {
	s.x.Helper()
	arguments := s.placeholder()
	maps.Copy(arguments["solution"].(map[string]any), evidence)
	reply := new(api.StepReply)
	s.call("kairos_next", arguments, reply)
	for _, solved := range reply.Solved {
		if solved.Output == nil { // the agent reported it itself
			continue
		}
		s.outputs[s.steps[solved.StepIndex-1].name] = string(solved.Output)
	}
	if reply.RunID == s.run {
		s.open = reply
	}
	if reply.RetryAfter != nil {
		select { // as the reply asks
		case <-time.After(time.Duration(*reply.RetryAfter * float64(time.Second))):
		case <-s.x.Context().Done():
		}
	}
	return reply
}

// at is the index of the step that is open; one more than there are: none.
func (s *session) at() int {
	if s.open.Challenge.Nonce == "" {
		return len(s.steps)
	}
	return s.open.StepIndex - 1
}

func (s *session) report(name, output string) {
	s.x.Helper()
	st := s.step(name)
	index := slices.IndexFunc(s.steps, func(other step) bool { return other.name == name })
	if output != "" {
		s.outputs[name] = output
	}
	for range rounds {
		if s.at() != index {
			return
		}
		if output != "" {
			s.send(s.evidence(st, output))
		}
		if s.at() == index && (s.observed || st.approved) {
			s.send(nil)
		}
	}
}

// evidence is a report of the agent in the form that the step's type has.
func (s *session) evidence(st step, output string) map[string]any {
	s.x.Helper()
	if st.typ == "shell" {
		return map[string]any{"shell": json.RawMessage(output)}
	}
	var p struct {
		Tool string `json:"tool_name"`
	}
	if err := json.Unmarshal([]byte(st.params), &p); err != nil {
		s.x.Fatal(err)
	}
	report := map[string]any{"tool_name": p.Tool, "result": json.RawMessage(output), "success": true}
	// The agent says that it called the tool as it was told.
	var asked struct {
		Arguments any `json:"arguments"`
	}
	if json.Unmarshal(s.open.Challenge.Display, &asked) == nil {
		report["arguments"] = asked.Arguments
	}
	return map[string]any{"mcp": report}
}

func (s *session) approval(string) {
	s.x.Helper()
	s.send(map[string]any{"type": "user_input", "user_input": map[string]any{"confirmation": "approved"}})
}

func (s *session) output(step string) string { return s.outputs[step] }

func (s *session) accepted() bool {
	s.x.Helper()
	reply := s.attest()
	if !reply.Verified || !s.observed {
		return reply.Verified
	}
	for i, st := range s.steps {
		if st.decides && reply.Steps[i].Provenance != driver.ServerObserved {
			return false
		}
	}
	return true
}

func (s *session) attest() (reply api.AttestReply) {
	s.x.Helper()
	s.call("kairos_attest", map[string]any{"uri": s.uri, "outcome": "success", "message": "done", "run_id": s.run}, &reply)
	s.attested = reply
	return reply
}
