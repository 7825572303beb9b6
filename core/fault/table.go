package fault

import (
	"cmp"
	"slices"
)

// Row is everything that is known of an error code. Adding a code means adding its
// constant and its row: the guide for agents, the manual, REST, metrics and the
// command line read the table.
type Row struct {
	Code Code
	// Meaning says what has happened.
	Meaning string
	// Advice says what an agent does about it: the next_action of an error that
	// names none, and a line of the guide.
	Advice string
	// Hint says what a person at a terminal does about it.
	Hint string
	// Status is the HTTP status. 200: the reply of a call of a run has status
	// 200, any other call 409. It is 0 if no server has replied.
	Status int
	// Name is the error in REST where it is not Code.
	Name string
	// Counted says whether the submission counts as an attempt at the step; only
	// in runs.
	Counted string
	// Broken: the server has failed, rather than refused.
	Broken bool
}

// inRun are the codes of a step that stays open.
var inRun = []Row{
	{
		Code: MissingField, Counted: "only if the nonce was right", Status: 200,
		Meaning: "the solution, or a part of it, is missing or still a placeholder", Advice: "fill it in and call kairos_next again",
		Hint: "submit a solution with the fields that the challenge names",
	},
	{
		Code: TypeMismatch, Counted: "yes", Status: 200,
		Meaning: "the solution is of another type than the challenge", Advice: "send a solution of the challenge's type",
		Hint: "submit a solution of the challenge's type, or leave type out",
	},
	{
		Code: NonceMismatch, Counted: "unless it was used before", Status: 200,
		Meaning: "the nonce belongs to another challenge, or to another run", Advice: "take nonce and proof_hash from this reply's challenge",
		Hint: "take nonce and proof_hash from the last reply, or use `kairos runs next --follow`",
	},
	{
		Code: ProofHashMismatch, Counted: "yes", Status: 200,
		Meaning: "the proof_hash belongs to another challenge", Advice: "take nonce and proof_hash from this reply's challenge",
		Hint: "take nonce and proof_hash from the last reply, or use `kairos runs next --follow`",
	},
	{
		Code: CommandFailed, Counted: "yes", Status: 200,
		Meaning: "exit code, tool, arguments or result are not as demanded", Advice: "fix the cause, do it again and report it",
		Hint: "fix the cause, do the step again and submit the result",
	},
	{
		Code: CommentTooShort, Counted: "yes", Status: 200,
		Meaning: "the comment says too little", Advice: "write what was done",
		Hint: "write what was done in this step",
	},
	{
		Code: CommentIrrelevant, Counted: "yes", Status: 200,
		Meaning: "the comment repeats the step, or has little to do with it", Advice: "write what was done",
		Hint: "write what was done in this step",
	},
	{
		Code: OutputInvalid, Counted: "yes", Status: 200,
		Meaning: "the result does not fit the step's `output_schema`, or has more than 256 KiB", Advice: "send the tool's result unchanged",
		Hint: "submit a result that fits; the message names the place, or the size",
	},
	{
		Code: MaxRetriesExceeded, Counted: "–", Status: 200,
		Meaning: "third failure or later", Advice: "choose one of the ways in `next_action`",
		Hint: "change the step with `kairos protocols update`, give up with `kairos runs attest URI failure`, or try once more",
	},
	{
		Code: EvidenceNotAccepted, Counted: "no where the challenge says `evidence`", Status: 200,
		Meaning: "the agent's word does not count: only a person's own answer, or what the server observes itself",
		Advice:  "call kairos_next with the placeholder solution, so that the server asks the person, or looks itself",
		Hint:    "use a client that can ask you, or the approval page; what KAIROS has to observe you cannot supply",
	},
	{
		Code: ObservationUnavailable, Counted: "no", Status: 200,
		Meaning: "only what the server observes itself counts, and it could not look",
		Advice:  "tell the user what kept the server from looking, and do not do it yourself",
		Hint:    "fix what the message names, then submit again without evidence",
	},
	{
		Code: RulesConflict, Counted: "no", Status: 200,
		Meaning: "the step and the operator's rules exclude each other: no evidence can count, or nobody can approve",
		Advice:  "tell the user which step and rule contradict each other; nothing that you submit helps",
		Hint:    "change the step with `kairos protocols update`, or the rule that the message names",
	},
	{
		Code: UserDeclined, Counted: "yes", Status: 200,
		Meaning: "a person declined", Advice: "tell the user what declining means here and ask how to continue",
		Hint: "the run waits; with a client that shows forms submit again to be asked once more, else take the decline back with `kairos runs undecline`, or attest a failure",
	},
	{
		Code: WaitingForUser, Counted: "no", Status: 200,
		Meaning: "a person is being asked; the question stays open", Advice: "repeat the call; never answer for them",
		Hint: "answer the question, then submit again",
	},
	{
		Code: WaitingForDriver, Counted: "no", Status: 200,
		Meaning: "a driver has asked somebody, or something is running; no other route is tried",
		Advice:  "call kairos_next again after `retry_after` seconds; do nothing in between, tell the user `progress` (0 to 1) and `progress_message`",
		Hint:    "submit again when the driver has had time",
	},
	{
		Code: Cancelled, Counted: "no", Status: 200,
		Meaning: "what a driver did for the step was cancelled", Advice: "ask the user how to continue",
		Hint: "`kairos runs next` starts it again, after a new approval where it changes something",
	},
	{
		Code: OutcomeUnknown, Counted: "no", Status: 200,
		Meaning: "a driver may have changed something, and nobody can tell; it is not called again", Advice: "tell the user; do not do it yourself",
		Hint: "find out what happened, then record it with `kairos runs decide`",
	},
	{
		Code: ApprovalUnavailable, Counted: "no", Status: 200,
		Meaning: "a person must approve, and nobody can be asked", Advice: "tell the user that the step waits for a person's approval, and how they can give it",
		Hint: "approve with a client that can ask you, or on the approval page of `kairos serve --http`",
	},
	{
		Code: ElicitationFailed, Counted: "no", Status: 200,
		Meaning: "the client could not ask the person", Advice: "do the step and submit it, if the answer is yours to give",
		Hint: "do the step and submit it",
	},
	{
		Code: SamplingFailed, Counted: "no", Status: 200,
		Meaning: "the client's model could not be asked", Advice: "do the step and submit it, if the answer is yours to give",
		Hint: "do the step and submit it",
	},
	{
		Code: RootsFailed, Counted: "no", Status: 200,
		Meaning: "the client could not list its folders", Advice: "do the step and submit it, if the answer is yours to give",
		Hint: "do the step and submit it",
	},
	{
		Code: JudgedInsufficient, Counted: "yes", Status: 200,
		Meaning: "a judge finds the result insufficient", Advice: "fix what the judge misses, do the step again and submit what really happened",
		Hint: "fix what the judge misses and do the step again",
	},
	{
		Code: JudgeUnavailable, Counted: "no", Status: 200,
		Meaning: "the result must be judged, and no judge is available",
		Advice:  "tell the user that it takes a client with sampling, or a model that the operator configures",
		Hint:    "configure a model that judges, or use a client that offers sampling",
	},
	{
		Code: SamplingBudgetExceeded, Counted: "no", Status: 200,
		Meaning: "models may not be asked more in this run, or by this caller in this hour",
		Advice:  "do the step if `next_call` asks for it; else tell the user: an hour's budget refills, the operator can raise a run's",
		Hint:    "do the step yourself, or try again in an hour",
	},
	{
		Code: DriverUnavailable, Counted: "no", Status: 503,
		Meaning: "a driver failed or is missing; nothing is lost",
		Advice:  "tell the user that the operator has to see to the driver: the server's log has the cause",
		Hint:    "`kairos driver info` and the log say what is wrong with the driver",
	},
	{
		Code: FilesUnverified, Counted: "no", Status: 200,
		Meaning: "the server has to check files and cannot",
		Advice:  "begin again with `roots` if `next_call` does; else tell the user that the server looks into roots of a client on its machine, or folders that the operator allows",
		Hint:    "use a client on the server's machine that lists its roots, or allow a folder in the configuration",
	},
	{
		Code: FilesMismatch, Counted: "yes", Status: 200,
		Meaning: "the files are not as the step demands, seen by the server or by the report itself",
		Advice:  "correct the files, then call kairos_next again with the step's evidence",
		Hint:    "make the files as the step demands and submit the evidence again",
	},
}

// inCall are the codes of calls that did nothing, unless the message says more.
var inCall = []Row{
	{
		Code: InvalidArgument, Status: 400, Name: "INVALID_INPUT",
		Meaning: "an argument is missing or wrong; `message` names it", Advice: "correct what the message names and call the tool again",
		Hint: "repeat the command with that corrected; its --help says what it takes",
	},
	{
		Code: MissingInput, Status: 200,
		Meaning: "the protocol needs `input`; `missing` names the keys", Advice: "call kairos_begin with an input object that holds what is missing",
		Hint: "begin again with --input and the keys that are missing",
	},
	{
		Code: NotFound, Status: 404,
		Meaning: "no such protocol, step or run among yours", Advice: "call kairos_search with what you want to do, and use a uri from its choices",
		Hint: "`kairos search WORDS` finds protocols, `kairos runs list --all` lists runs",
	},
	{
		Code: NoOpenRun, Status: 200,
		Meaning: "the run is over, or never began", Advice: "call kairos_begin with the uri of the protocol to open a run",
		Hint: "`kairos runs begin URI` opens a run",
	},
	{
		Code: AmbiguousRun, Status: 200,
		Meaning: "several runs could be meant; `candidates` names them", Advice: "repeat the call with the run_id you mean",
		Hint: "name the run with --run-id",
	},
	{
		Code: RunIncomplete, Status: 200,
		Meaning: "success cannot be attested before all steps are solved", Advice: "solve the missing steps, or attest failure",
		Hint: "solve the missing steps with `kairos runs next`, or attest failure",
	},
	{
		Code: DuplicateChain, Status: 409,
		Meaning: "a protocol of this title exists", Advice: "call kairos_dump to read it; let the user choose",
		Hint: "`kairos protocols dump` shows the stored protocol, --force replaces it",
	},
	{
		Code: SimilarMemoryFound, Status: 409,
		Meaning: "a protocol of nearly this title exists", Advice: "call kairos_dump to read it; let the user choose",
		Hint: "`kairos protocols dump` shows the stored protocol, --force stores yours beside it",
	},
	{
		Code: DocumentRefused, Status: 422,
		Meaning: "the document has mistakes; `message` names each with its line and column", Advice: "fix the mistakes and call the tool again",
		Hint: "fix the lines that the message names; `kairos lint` checks a file without storing it",
	},
	{
		Code: StoreFailed, Status: 500, Broken: true,
		Meaning: "the database failed", Advice: "call the tool again; if it fails again, tell the user what the message says",
		Hint: "`kairos doctor` checks the database",
	},
	{
		Code: StoreUnavailable, Status: 503, Broken: true,
		Meaning: "the database does not answer; nothing was stored", Advice: "call the tool again in a while: nothing was stored",
		Hint: "try again in a while, nothing was stored; `kairos doctor` finds the cause",
	},
	{
		Code: AuditUnavailable, Status: 503, Broken: true,
		Meaning: "the audit log cannot be written; nothing was done", Advice: "tell the user; call the tool again in a while: nothing was done",
		Hint: "look at the disk of the audit log; `kairos doctor` says where it is and what is wrong",
	},
	{
		Code: SpaceReadOnly, Status: 403,
		Meaning: "this space is not yours to write", Advice: "call kairos_spaces to see which spaces are yours, and leave out space or name one of them",
		Hint: "leave --space out, or name one that `kairos spaces list` lists",
	},
	{
		Code: SpaceNotFound, Status: 404,
		Meaning: "no such space among yours", Advice: "call kairos_spaces to see which spaces are yours, and leave out space or name one of them",
		Hint: "leave --space out, or name one that `kairos spaces list` lists, or make it with `kairos spaces create`",
	},
	{
		Code: NoSpace, Status: 403,
		Meaning: "you have no space of your own", Advice: "call kairos_spaces to see which spaces are yours, and name one of them",
		Hint: "name a space that `kairos spaces list` lists with --space",
	},
	{
		Code: Forbidden, Status: 403, Name: "forbidden",
		Meaning: "not yours to read or to do", Advice: "call kairos_spaces to see which spaces are yours, and leave out space or name one of them",
		Hint: "ask the operator of the server for access",
	},
	{
		Code: Conflict, Status: 409,
		Meaning: "another call was first", Advice: "call the tool again: it works on what the other writer left",
		Hint: "run the command again",
	},
	{
		Code: Replayed, Status: 200,
		Meaning: "a question was answered before, with other answers", Advice: "call kairos_begin with session_id to see the open step as it is now",
		Hint: "`kairos runs begin URI --session RUN` shows the open step",
	},
	{
		Code: Internal, Status: 500, Broken: true,
		Meaning: "an error of the server; its log has it",
		Advice:  "call the tool again once; if it fails again, tell the user that the server's log has the cause",
		Hint:    "try again; the log has the cause",
	},
}

// The advice of requests that no tool has seen.
const (
	laterAdvice    = "repeat the request later; Retry-After says when, if it is there"
	allowAdvice    = "ask the operator of the server to allow it"
	correctAdvice  = "correct what the message names and repeat the request"
	operatorAdvice = "tell the operator of the server, whose log has the cause"
)

// inRequest are the codes of HTTP requests that were refused before a tool has
// seen them.
var inRequest = []Row{
	{
		Code: InvalidPath, Status: 400,
		Meaning: "the path is not in canonical form", Advice: correctAdvice, Hint: "check the URL of the server",
	},
	{
		Code: HostNotAllowed, Status: 403,
		Meaning: "the server is called by a name that it does not have", Advice: allowAdvice, Hint: "add the name to http.allowed_hosts",
	},
	{
		Code: OriginNotAllowed, Status: 403,
		Meaning: "pages of this origin may not call", Advice: allowAdvice, Hint: "add the origin to http.allowed_origins",
	},
	{
		Code: Unauthorized, Status: 401, Name: "Unauthorized",
		Meaning: "a call without a token on a server that asks for one, or a call of operators without the token of the server",
		Advice:  "tell the user that this server needs a token, of its operator or of the identity provider that the metadata names",
		Hint:    "set KAIROS_BEARER_TOKEN to a token of `kairos token create`, or of the identity provider of the server; for a call of operators run the command on the machine and as the user of the server",
	},
	{
		Code: InvalidToken, Status: 401, Name: "invalid_token",
		Meaning: "the token is unknown, revoked or expired, or it is not for this server", Advice: "tell the user that this server does not accept the token",
		Hint: "ask the operator of the server for a new token, which `kairos token create` makes, or log in anew at the identity provider",
	},
	{
		Code: MethodNotAllowed, Status: 405,
		Meaning: "the path does not take this method", Advice: correctAdvice, Hint: "check the URL of the server",
	},
	{
		Code: BodyTimeout, Status: 408,
		Meaning: "the body did not arrive in time", Advice: laterAdvice, Hint: "try again over a faster connection",
	},
	{
		Code: BodyTooLarge, Status: 413,
		Meaning: "the body is larger than 16 MiB", Advice: correctAdvice, Hint: "send less",
	},
	{
		Code: RateLimited, Status: 429,
		Meaning: "too many calls of this client", Advice: laterAdvice, Hint: "try again later; one client may make 600,000 calls a minute, and all clients behind a proxy that is not in http.trusted_proxies are one",
	},
	{
		Code: Busy, Status: 503,
		Meaning: "the server works on as many calls as it can", Advice: laterAdvice, Hint: "try again later",
	},
	{
		Code: IdentityUnavailable, Status: 503, Broken: true,
		Meaning: "the identity provider does not answer, so the token cannot be checked", Advice: laterAdvice,
		Hint: "try again later; the log of the server says why it could not ask the provider",
	},
	{
		Code: LoginNotConfigured, Status: 503,
		Meaning: "this server has no login", Advice: "tell the user that this server has no login in a browser", Hint: "call the server without a login",
	},
}

// ofClient are the codes of calls that no server has replied to.
var ofClient = []Row{
	{
		Code: ServerUnreachable, Broken: true,
		Meaning: "nothing answers at the address of the server", Advice: operatorAdvice,
		Hint: "start a server with `kairos serve --http`, or name another with --url or KAIROS_API_URL",
	},
	{
		Code: UnexpectedReply, Broken: true,
		Meaning: "what answers at the address is not a KAIROS server", Advice: operatorAdvice,
		Hint: "check --url and KAIROS_API_URL: the URL is that of the server, such as http://127.0.0.1:3300, without /mcp or /api",
	},
}

// Table lists all codes. Drivers may have codes of their own behind their names.
var Table = slices.Concat(inRun, inCall, inRequest, ofClient)

var byCode = func() map[Code]Row {
	rows := make(map[Code]Row, len(Table))
	for _, r := range Table {
		rows[r.Code] = r
	}
	return rows
}()

// ofDriver is the row of the codes that drivers make up.
var ofDriver = Row{
	Meaning: "a code of that driver's own", Counted: "yes", Status: 200,
	Advice: "tell the user what the message says and ask how to continue", Hint: "do what the message says",
}

// RowOf is the row of a code. That of a driver's own code has no Code.
func RowOf(code Code) Row {
	if r, ok := byCode[code]; ok {
		return r
	}
	return ofDriver
}

// RESTName is the error in REST.
func (r Row) RESTName() string { return cmp.Or(r.Name, string(r.Code)) }
