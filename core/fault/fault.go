// Package fault holds the errors that leave the core: a code that the caller
// acts on and a message that an agent may read. Anything else is internal and
// never shown.
package fault

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// Code is one of the few reasons everything outside may see.
type Code string

// The codes. Their text is part of the wire; Table says what each means.
const (
	NotFound           Code = "NOT_FOUND"
	InvalidArgument    Code = "INVALID_ARGUMENT"
	MissingInput       Code = "MISSING_INPUT"
	NoOpenRun          Code = "NO_OPEN_RUN"
	AmbiguousRun       Code = "AMBIGUOUS_RUN"
	RunIncomplete      Code = "RUN_INCOMPLETE"
	DuplicateChain     Code = "DUPLICATE_CHAIN"
	SimilarMemoryFound Code = "SIMILAR_MEMORY_FOUND"
	SpaceReadOnly      Code = "SPACE_READ_ONLY"
	SpaceNotFound      Code = "SPACE_NOT_FOUND"
	NoSpace            Code = "NO_SPACE"
	Forbidden          Code = "FORBIDDEN"
	DocumentRefused    Code = "DOCUMENT_REFUSED"
	StoreFailed        Code = "STORE_FAILED"
	StoreUnavailable   Code = "STORE_UNAVAILABLE"
	AuditUnavailable   Code = "AUDIT_UNAVAILABLE"
	Conflict           Code = "CONFLICT"
	Replayed           Code = "REPLAYED"
	Internal           Code = "INTERNAL"

	NonceMismatch          Code = "NONCE_MISMATCH"
	ProofHashMismatch      Code = "PROOF_HASH_MISMATCH"
	MissingField           Code = "MISSING_FIELD"
	TypeMismatch           Code = "TYPE_MISMATCH"
	MaxRetriesExceeded     Code = "MAX_RETRIES_EXCEEDED"
	UserDeclined           Code = "USER_DECLINED"
	ApprovalUnavailable    Code = "APPROVAL_UNAVAILABLE"
	WaitingForUser         Code = "WAITING_FOR_USER"
	WaitingForDriver       Code = "WAITING_FOR_DRIVER"
	Cancelled              Code = "CANCELLED"
	OutcomeUnknown         Code = "OUTCOME_UNKNOWN"
	DriverUnavailable      Code = "DRIVER_UNAVAILABLE"
	OutputInvalid          Code = "OUTPUT_INVALID"
	FilesUnverified        Code = "FILES_UNVERIFIED"
	FilesMismatch          Code = "FILES_MISMATCH"
	JudgedInsufficient     Code = "JUDGED_INSUFFICIENT"
	JudgeUnavailable       Code = "JUDGE_UNAVAILABLE"
	EvidenceNotAccepted    Code = "EVIDENCE_NOT_ACCEPTED"
	ObservationUnavailable Code = "OBSERVATION_UNAVAILABLE"
	RulesConflict          Code = "RULES_CONFLICT"
	SamplingBudgetExceeded Code = "SAMPLING_BUDGET_EXCEEDED"

	InvalidPath        Code = "INVALID_PATH"
	HostNotAllowed     Code = "HOST_NOT_ALLOWED"
	OriginNotAllowed   Code = "ORIGIN_NOT_ALLOWED"
	MethodNotAllowed   Code = "METHOD_NOT_ALLOWED"
	Unauthorized       Code = "UNAUTHORIZED"
	InvalidToken       Code = "INVALID_TOKEN"
	BodyTimeout        Code = "BODY_TIMEOUT"
	BodyTooLarge       Code = "BODY_TOO_LARGE"
	RateLimited        Code = "RATE_LIMITED"
	Busy               Code = "BUSY"
	LoginNotConfigured Code = "auth_not_configured"
	// IdentityUnavailable: who calls cannot be found out, because the identity provider does not answer.
	IdentityUnavailable Code = "IDENTITY_UNAVAILABLE"

	ServerUnreachable Code = "SERVER_UNREACHABLE"
	UnexpectedReply   Code = "UNEXPECTED_REPLY"
)

// Error is an error that may be shown outside.
type Error struct {
	Code    Code
	Message string
	// NextAction says to agents which call helps. The default is the advice of the code.
	NextAction string
	// Hint says to people what helps. The default is the hint of the code. It is not
	// part of replies.
	Hint string
	// NextCall is NextAction for programs. It is nil where no single call helps.
	NextCall *Call
	// Details are further fields of the error reply; they must encode as JSON.
	Details map[string]any
	cause   error
}

// Call is a call of a tool. Its arguments must encode as JSON.
type Call struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

// New returns an error with a code; the message is formatted.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap is New with a cause, which is for logs and never part of the message.
func Wrap(cause error, code Code, format string, args ...any) *Error {
	e := New(code, format, args...)
	e.cause = cause
	return e
}

// WithNext returns a copy that says to agents which call helps.
func (e *Error) WithNext(format string, args ...any) *Error {
	c := *e
	c.NextAction = fmt.Sprintf(format, args...)
	return &c
}

// WithHint returns a copy that says to people what helps.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithRemedy returns a copy that says to agents and to people alike what helps.
func (e *Error) WithRemedy(format string, args ...any) *Error {
	return e.WithNext(format, args...).WithHint(format, args...)
}

// WithCall returns a copy that names the helping call for programs.
func (e *Error) WithCall(tool string, arguments map[string]any) *Error {
	c := *e
	c.NextCall = &Call{Tool: tool, Arguments: arguments}
	return &c
}

// With returns a copy with one more field in the reply.
func (e *Error) With(key string, value any) *Error {
	c := *e
	c.Details = maps.Collect(maps.All(e.Details))
	c.Details[key] = value
	return &c
}

func (e *Error) Error() string {
	if e.cause != nil && !strings.Contains(e.Message, e.cause.Error()) {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.cause)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// CodeOf returns the code of the first Error in err's chain, Internal for any
// other error, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}
