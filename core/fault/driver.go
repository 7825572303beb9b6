package fault

import "strings"

// The codes of the contract that a driver's verdict keeps. Existing clients act
// on them.
const (
	CommandFailed     Code = "COMMAND_FAILED"
	CommentTooShort   Code = "COMMENT_TOO_SHORT"
	CommentIrrelevant Code = "COMMENT_IRRELEVANT"
)

// The codes that OfRoute gives to the shipped drivers of client capabilities.
const (
	ElicitationFailed Code = "ELICITATION_FAILED"
	SamplingFailed    Code = "SAMPLING_FAILED"
	RootsFailed       Code = "ROOTS_FAILED"
)

var verdicts = map[Code]bool{MissingField: true, CommandFailed: true, CommentTooShort: true, CommentIrrelevant: true}

// OfDriver is the code for a verdict of the named driver. Codes that the
// contract gives to verdicts stay as they are; any other one goes behind the
// driver's name and a dot, so that it cannot be taken for a code of the core.
func OfDriver(name, code string) Code {
	if verdicts[Code(code)] {
		return Code(code)
	}
	return Code(name + "." + code)
}

// OfRoute is the code for an input that could not be obtained because the named
// driver failed.
func OfRoute(name string) Code {
	code := Code(strings.ToUpper(name) + "_FAILED")
	if code == StoreFailed || verdicts[code] {
		return OfDriver(name, "FAILED")
	}
	return code
}
