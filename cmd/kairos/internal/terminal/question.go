package terminal

import (
	"cmp"
	"context"
	"encoding/json"
)

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
