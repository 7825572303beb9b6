package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/kairos-mcp/kairos/sdk/pattern"
)

// Kind of a question that a host can face; see the package comment.
type Kind string

// The kinds of questions.
const (
	KindElicitation Kind = "elicitation"
	KindVisit       Kind = "visit"
	KindSampling    Kind = "sampling"
	KindTool        Kind = "tool"
	KindShell       Kind = "shell"
	KindComment     Kind = "comment"
	KindConfirm     Kind = "confirm"
	KindEvidence    Kind = "evidence"
)

// verb is what a rule does.
type verb string

const (
	verbAnswer    verb = "answer"
	verbDecline   verb = "decline"
	verbCancel    verb = "cancel"
	verbRefuse    verb = "refuse"
	verbRun       verb = "run"
	verbArguments verb = "arguments"
	verbCall      verb = "call"
)

// maxScript is the size in bytes above which a script is refused.
const maxScript = 1 << 20

// maxAfter bounds how long a rule waits with its answer.
const maxAfter = 10 * time.Minute

// Script answers questions. It is immutable; each Play counts on its own.
type Script struct{ rules []rule }

type rule struct {
	on      Kind
	match   string // lower case
	matches *pattern.Pattern
	times   int           // 0: any number
	after   time.Duration // that a person takes for the answer
	verb    verb
	answer  json.RawMessage
	args    map[string]any
	call    *scriptCall
}

// answers reports whether the script has a rule for questions of the kind.
func (s *Script) answers(k Kind) bool {
	return slices.ContainsFunc(s.rules, func(r rule) bool { return r.on == k })
}

type scriptCall struct {
	Server    string         `yaml:"server"`
	Tool      string         `yaml:"tool"`
	Arguments map[string]any `yaml:"arguments"`
	As        string         `yaml:"as"`
}

type scriptFile struct {
	Rules []ruleFile `yaml:"rules"`
}

type ruleFile struct {
	On        Kind           `yaml:"on"`
	Match     string         `yaml:"match"`
	Matches   string         `yaml:"matches"`
	Times     int            `yaml:"times"`
	After     time.Duration  `yaml:"after"`
	Answer    any            `yaml:"answer"`
	Decline   bool           `yaml:"decline"`
	Cancel    bool           `yaml:"cancel"`
	Refuse    bool           `yaml:"refuse"`
	Run       bool           `yaml:"run"`
	Arguments map[string]any `yaml:"arguments"`
	Call      *scriptCall    `yaml:"call"`
}

// ParseScript reads a script; errors name the rule.
func ParseScript(data []byte) (*Script, error) {
	if len(data) > maxScript {
		return nil, fmt.Errorf("script is larger than %d bytes", maxScript)
	}
	var file scriptFile
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("script: %w", err)
	}
	if len(file.Rules) == 0 {
		return nil, errors.New("script: no rules")
	}
	s := &Script{}
	var errs []error
	for i, rf := range file.Rules {
		r, err := rf.rule()
		if err != nil {
			errs = append(errs, fmt.Errorf("script: rule %d: %w", i+1, err))
		}
		s.rules = append(s.rules, r)
	}
	if len(errs) == 0 {
		errs = append(errs, s.checkResults())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// kindsOf says which kinds of questions a verb can answer.
func kindsOf(v verb) []Kind {
	return map[verb][]Kind{
		verbAnswer:    {KindElicitation, KindSampling, KindComment, KindConfirm, KindEvidence},
		verbDecline:   {KindElicitation, KindVisit, KindConfirm},
		verbCancel:    {KindElicitation, KindVisit},
		verbRefuse:    {KindSampling, KindTool, KindShell, KindComment, KindEvidence},
		verbRun:       {KindSampling, KindVisit, KindTool, KindShell, KindComment},
		verbArguments: {KindTool},
		verbCall:      {KindSampling, KindEvidence},
	}[v]
}

func (f ruleFile) verbs() []verb {
	var given []verb
	for _, v := range []struct {
		verb verb
		set  bool
	}{
		{verbAnswer, f.Answer != nil},
		{verbDecline, f.Decline},
		{verbCancel, f.Cancel},
		{verbRefuse, f.Refuse},
		{verbRun, f.Run},
		{verbArguments, f.Arguments != nil},
		{verbCall, f.Call != nil},
	} {
		if v.set {
			given = append(given, v.verb)
		}
	}
	return given
}

func (f ruleFile) rule() (rule, error) {
	given := f.verbs()
	if len(given) != 1 {
		return rule{}, fmt.Errorf("needs exactly one of answer, decline, cancel, refuse, run, arguments, call; has %d", len(given))
	}
	r := rule{on: f.On, match: strings.ToLower(f.Match), times: f.Times, after: f.After, verb: given[0], args: f.Arguments, call: f.Call}
	if !slices.Contains(kindsOf(r.verb), r.on) {
		return rule{}, fmt.Errorf("%s cannot answer on: %q, only %v", r.verb, r.on, kindsOf(r.verb))
	}
	if f.Times < 0 {
		return rule{}, fmt.Errorf("times: %d is negative", f.Times)
	}
	if f.After < 0 || f.After > maxAfter {
		return rule{}, fmt.Errorf("after: %s is not from 0s to %s", f.After, maxAfter)
	}
	if f.Match != "" && f.Matches != "" {
		return rule{}, errors.New("match and matches exclude each other")
	}
	if f.Matches != "" {
		compiled, err := pattern.Compile(f.Matches)
		if err != nil {
			return rule{}, fmt.Errorf("matches: %w", err)
		}
		r.matches = compiled
	}
	if f.Answer != nil {
		answer, err := json.Marshal(f.Answer)
		if err != nil {
			return rule{}, fmt.Errorf("answer: %w", err)
		}
		r.answer = answer
	}
	return r, r.checkCall()
}

func (r rule) checkCall() error {
	args := r.args
	if r.call != nil {
		if r.call.Tool == "" {
			return errors.New("call: tool is missing")
		}
		args = r.call.Arguments
	}
	if _, err := json.Marshal(args); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	var errs []error
	eachPick(args, func(p pick) {
		if p.result == "" && (r.matches == nil || r.matches.SubexpIndex(p.group) < 0) {
			errs = append(errs, fmt.Errorf("arguments: matches has no group %q", p.group))
		}
	})
	return errors.Join(errs...)
}

// checkResults reports picks of results that no call of the script names.
func (s *Script) checkResults() error {
	named := map[string]bool{}
	for _, r := range s.rules {
		if r.call != nil && r.call.As != "" {
			named[r.call.As] = true
		}
	}
	var errs []error
	for i, r := range s.rules {
		args := r.args
		if r.call != nil {
			args = r.call.Arguments
		}
		eachPick(args, func(p pick) {
			if p.result != "" && !named[p.result] {
				errs = append(errs, fmt.Errorf("script: rule %d: arguments: no call has as: %s", i+1, p.result))
			}
		})
	}
	return errors.Join(errs...)
}

// prompter plays a script: which rules are used up, and what calls returned.
// Safe for concurrent use.
type prompter struct {
	script *Script

	mu      sync.Mutex // guards the fields below
	used    []int
	results map[string]json.RawMessage
}

func newPrompter(s *Script) *prompter {
	return &prompter{script: s, used: make([]int, len(s.rules)), results: map[string]json.RawMessage{}}
}

// decide finds the first rule for the question, counts its use, and takes the time that the rule says.
func (p *prompter) decide(ctx context.Context, q question) (decision, error) {
	out, after, err := p.find(q)
	if err != nil || after == 0 {
		return out, err
	}
	wait := time.NewTimer(after)
	defer wait.Stop()
	select {
	case <-wait.C:
		return out, nil
	case <-ctx.Done():
		return decision{}, ctx.Err()
	}
}

func (p *prompter) find(q question) (decision, time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, r := range p.script.rules {
		groups, ok := r.fits(q.kind, q.text)
		if !ok || (r.times > 0 && p.used[i] >= r.times) {
			continue
		}
		p.used[i]++
		out := decision{verb: r.verb, answer: r.answer, call: r.call}
		args := r.args
		if r.call != nil {
			args = r.call.Arguments
		}
		filled, err := fill(args, func(v pick) (any, error) { return v.value(groups, p.results) })
		if err != nil {
			return decision{}, 0, fmt.Errorf("script: rule %d: arguments: %w", i+1, err)
		}
		out.arguments, _ = filled.(map[string]any)
		return out, r.after, nil
	}
	return decision{}, 0, &UnansweredError{Kind: q.kind, Question: q.text}
}

// review takes the model's answer as it is: the rule said so.
func (p *prompter) review(_ context.Context, answer string) (string, error) { return answer, nil }

// keep stores the result of a call for later picks.
func (p *prompter) keep(as string, result json.RawMessage) {
	if as == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results[as] = result
}

// fits reports whether the rule is for the question, and the text of the
// named groups.
func (r rule) fits(kind Kind, question string) (map[string]string, bool) {
	if r.on != kind || !strings.Contains(strings.ToLower(question), r.match) {
		return nil, false
	}
	if r.matches == nil {
		return nil, true
	}
	m := r.matches.FindStringSubmatch(question)
	if m == nil {
		return nil, false
	}
	groups := map[string]string{}
	for i, name := range r.matches.SubexpNames() {
		if name != "" {
			groups[name] = m[i]
		}
	}
	return groups, true
}
