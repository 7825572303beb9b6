package fault

import (
	"cmp"
	"encoding/json"
	"maps"
)

// advice is the next action after an error that names none itself.
var advice = map[Code]string{
	NotFound:               "call kairos_search with what you want to do, and use a uri from its choices",
	InvalidArgument:        "correct what the message names and call the tool again",
	MissingInput:           "call kairos_begin with an input object that holds what is missing",
	NoOpenRun:              "call kairos_begin with the uri of the protocol to open a run",
	AmbiguousRun:           "repeat the call with the run_id you mean",
	UserDeclined:           "tell the user what their no means here and ask how to go on",
	ApprovalUnavailable:    "tell the user that the step waits for a person's approval, and how they can give it",
	JudgedInsufficient:     "mend what the judge misses, do the step again and submit what really happened",
	JudgeUnavailable:       "call kairos_next again from a client that offers sampling; the operator can also configure a model that judges",
	SamplingBudgetExceeded: "obtain what the step demands yourself if its challenge allows it, or call the tool again in an hour",
	FilesUnverified:        "tell the user that the step's files have to be checked by the server: by a client on its machine that lists its roots, or below a folder that the operator allows",
	EvidenceNotAccepted:    "call kairos_next with the placeholder solution, so that the server asks the person",
	FilesMismatch:          "make the files as the step demands, then call kairos_next again with the step's evidence",
	DriverUnavailable:      "call the tool again once the driver works; the operator finds the cause in the server's log",
	StoreFailed:            "correct what the message names and call the tool again; if it names nothing, tell the user",
	StoreUnavailable:       "call the tool again in a while: nothing was stored",
	Forbidden:              "call kairos_spaces to see which spaces are yours, and leave out space or name one of them",
	SpaceNotFound:          "call kairos_spaces to see which spaces are yours, and leave out space or name one of them",
	Conflict:               "call the tool again: it works on what the other writer left",
	Replayed:               "call kairos_begin with session_id to see the open step as it is now",
	Internal:               "call the tool again once; if it fails again, tell the user that the server's log has the cause",
}

const lastAdvice = "tell the user what the message says and ask how to go on"

// Next says which call helps, or what else the caller can do.
func (e *Error) Next() string {
	if e.NextAction != "" {
		return e.NextAction
	}
	if text := advice[e.Code]; text != "" {
		return text
	}
	return lastAdvice
}

// Reply is the error as every face answers it: a JSON object with the code, what
// was tried, what went wrong and what to do next.
func (e *Error) Reply(tried string) map[string]any {
	fields := map[string]any{"must_obey": false}
	maps.Copy(fields, e.Details)
	fields["error_code"] = e.Code
	fields["message"] = e.Message
	fields["next_action"] = e.Next()
	if tried != "" {
		fields["tried"] = tried
	}
	if e.NextCall != nil {
		fields["next_call"] = e.NextCall
	}
	return fields
}

// known are the fields of replies that are not details of the error.
var known = []string{"error", "error_code", "message", "next_action", "next_call", "must_obey", "tried", "duration_ms", "metadata"}

// FromReply is the error that a reply reports; nil if it reports none.
func FromReply(reply []byte) *Error {
	var fields map[string]any
	if json.Unmarshal(reply, &fields) != nil {
		return nil //nolint:nilerr // not an object: it reports no error
	}
	text := func(key string) string { s, _ := fields[key].(string); return s }
	code := cmp.Or(text("error_code"), text("error"))
	if code == "" {
		return nil
	}
	e := &Error{Code: Code(code), Message: text("message"), NextAction: text("next_action")}
	if b, err := json.Marshal(fields["next_call"]); err == nil {
		_ = json.Unmarshal(b, &e.NextCall) // of another shape: there is none
	}
	for _, key := range known {
		delete(fields, key)
	}
	e.Details = fields
	return e
}
