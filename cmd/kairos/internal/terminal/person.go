package terminal

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/tty"
)

// person decides at the console, and is asked line by line or with forms.
type person struct {
	console *console
	by      asker
}

// decide shows the question and asks until the answer fits.
func (p person) decide(ctx context.Context, q question) (decision, error) {
	done, err := p.console.dialog(ctx)
	if err != nil {
		return decision{}, err
	}
	defer done()
	ask := map[Kind]func(context.Context, question) (decision, error){
		KindElicitation: p.form,
		KindVisit:       p.visit,
		KindSampling:    p.sampling,
		KindTool:        p.tool,
		KindShell:       p.command,
		KindComment:     p.comment,
		KindConfirm:     p.confirm,
		KindEvidence:    p.evidence,
	}[q.kind]
	p.console.say("\n%s", heading(q.kind))
	p.console.quote(q.shown())
	tty.Discard(p.console.stdin)
	return ask(ctx, q)
}

func heading(k Kind) string {
	return map[Kind]string{
		KindElicitation: "The server asks you:",
		KindVisit:       "The server asks you at an address:",
		KindSampling:    "The server wants to ask your model:",
		KindTool:        "The step needs a tool call:",
		KindShell:       "The step needs a command:",
		KindComment:     "The step needs a text:",
		KindConfirm:     "The step asks you:",
		KindEvidence:    "The step needs an answer as JSON:",
	}[k]
}

func (p person) form(ctx context.Context, q question) (decision, error) {
	f, err := parseForm(q.schema)
	if err != nil {
		return decision{}, err
	}
	return f.fill(ctx, p.console, p.by)
}

func (p person) sampling(ctx context.Context, q question) (decision, error) {
	options := []string{"write the answer", "refuse"}
	if q.canRun {
		options = []string{"approve", "edit", "write the answer", "refuse"}
	}
	got, err := p.by.choose(ctx, "Send it?", options...)
	if err != nil {
		return decision{}, err
	}
	switch got {
	case "approve":
		return decision{verb: verbRun}, nil
	case "edit":
		edited, err := p.by.paragraph(ctx, "The prompt as it should be")
		return decision{verb: verbRun, prompt: edited}, err
	case "refuse":
		return decision{verb: verbRefuse}, nil
	}
	text, err := p.by.paragraph(ctx, "The model's answer")
	return textAnswer(text), err
}

func (p person) review(ctx context.Context, answer string) (string, error) {
	done, err := p.console.dialog(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	p.console.say("\nThe model answers:")
	p.console.quote(answer)
	got, err := p.by.choose(ctx, "Hand it on?", "yes", "write another", "refuse")
	if err != nil {
		return "", err
	}
	switch got {
	case "yes":
		return answer, nil
	case "refuse":
		return "", errRefused
	}
	return p.by.paragraph(ctx, "The answer instead")
}

// tool asks for the arguments that are missing, one by one, and then whether the
// tool is called with all of them.
func (p person) tool(ctx context.Context, q question) (decision, error) {
	args, whole, err := p.complete(ctx, q)
	if err != nil || args == nil {
		return decision{verb: verbRefuse}, err
	}
	got, err := p.by.choose(ctx, "Call it?", "yes", "edit the arguments", "refuse")
	switch {
	case err != nil:
		return decision{}, err
	case got == "refuse":
		return decision{verb: verbRefuse}, nil
	case got == "yes" && whole:
		return decision{verb: verbRun}, nil
	case got == "yes":
		return decision{verb: verbArguments, arguments: args}, nil
	}
	for {
		text, err := p.by.ask(ctx, "Arguments as one line of JSON ("+typedDecline+" refuses):")
		if err != nil {
			return decision{}, err
		}
		if strings.TrimSpace(text) == typedDecline {
			return decision{verb: verbRefuse}, nil
		}
		if arguments, ok := readArguments(text); ok {
			return decision{verb: verbArguments, arguments: arguments}, nil
		}
		p.console.say("  not a JSON object")
	}
}

// complete returns the arguments of the call with those that the person adds; nil:
// they decline. whole: none was missing.
func (p person) complete(ctx context.Context, q question) (args map[string]any, whole bool, err error) {
	missing := missingArguments(q.schema, q.arguments)
	if len(missing) == 0 && q.arguments != nil {
		return q.arguments, true, nil
	}
	args = maps.Clone(q.arguments)
	if args == nil {
		args = map[string]any{}
	}
	for _, fd := range missing {
		v, value, err := fd.ask(ctx, p.console, p.by)
		if err != nil || v != verbAnswer {
			return nil, false, err
		}
		args[fd.name] = value
	}
	p.console.quote("with " + compact(args))
	return args, false, nil
}

func (p person) command(ctx context.Context, _ question) (decision, error) {
	got, err := p.by.choose(ctx, "Run it?", "yes", "refuse")
	if err != nil || got == "refuse" {
		return decision{verb: verbRefuse}, err
	}
	return decision{verb: verbRun}, nil
}

func (p person) comment(ctx context.Context, q question) (decision, error) {
	if q.canRun {
		got, err := p.by.choose(ctx, "Who writes it?", "model", "person", "refuse")
		if err != nil {
			return decision{}, err
		}
		switch got {
		case "model":
			return decision{verb: verbRun}, nil
		case "refuse":
			return decision{verb: verbRefuse}, nil
		}
	}
	text, err := p.by.paragraph(ctx, "The text, or "+typedDecline)
	if strings.TrimSpace(text) == typedDecline {
		return decision{verb: verbRefuse}, err
	}
	return textAnswer(text), err
}

func (p person) confirm(ctx context.Context, _ question) (decision, error) {
	for {
		text, err := p.by.ask(ctx, "Your answer ([y]es, [n]o, or a text):")
		if err != nil {
			return decision{}, err
		}
		switch text = strings.TrimSpace(text); {
		case text == "":
		case text == typedDecline, slices.Contains(noWords, strings.ToLower(text)):
			return decision{verb: verbDecline}, nil
		case slices.Contains(yesWords, strings.ToLower(text)):
			return textAnswer(approved), nil
		default:
			return textAnswer(text), nil
		}
	}
}

func (p person) evidence(ctx context.Context, _ question) (decision, error) {
	for {
		text, err := p.by.ask(ctx, "One line of JSON ("+typedDecline+" refuses):")
		if err != nil {
			return decision{}, err
		}
		if strings.TrimSpace(text) == typedDecline {
			return decision{verb: verbRefuse}, nil
		}
		if json.Valid([]byte(text)) {
			return decision{verb: verbAnswer, answer: json.RawMessage(text)}, nil
		}
		p.console.say("  not JSON")
	}
}

// question is something that the person, or the script in their place, decides.
type question struct {
	kind Kind
	// text is the whole question.
	text string
	// unread is the part of text that is not on the screen yet; "": all of it.
	unread string
	// schema of the form (KindElicitation), or of the tool's arguments (KindTool).
	schema json.RawMessage
	// arguments of the tool call in question, or nil until they are known.
	arguments map[string]any
	// canRun: there is a model to ask.
	canRun bool
	// open shows the person the address (KindVisit). If it is nil they open it themselves.
	open func(context.Context) error
}

// shown is what a person still has to read.
func (q question) shown() string { return cmp.Or(q.unread, q.text) }

// decision is what was decided.
type decision struct {
	verb verb
	// answer with verbAnswer, as JSON.
	answer json.RawMessage
	// arguments of the tool call with verbArguments and verbCall.
	arguments map[string]any
	// prompt as edited, with verbRun on sampling; "" means unchanged.
	prompt string
	call   *scriptCall
}

// text of the answer: a string as it is, anything else as JSON.
func (d decision) text() string { return plainText(d.answer) }

// decider answers questions: a person or a script.
type decider interface {
	decide(ctx context.Context, q question) (decision, error)
	// review shows what the model said; the result may be another text. It
	// returns errRefused if it must not be used.
	review(ctx context.Context, answer string) (string, error)
}

func plainText(raw json.RawMessage) string {
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		return text
	}
	return string(raw)
}

func textAnswer(text string) decision {
	raw, _ := json.Marshal(text) // a string always encodes
	return decision{verb: verbAnswer, answer: raw}
}
