package audit

// Action is what is done: a noun and a verb. A call of operators that was refused has the name of
// the call.
type Action string

// The actions.
const (
	ServerRun        Action = "server.run"
	SetupReload      Action = "setup.reload"
	SetupRollback    Action = "setup.rollback"
	DriverInstall    Action = "driver.install"
	DriverRemove     Action = "driver.remove"
	DriverLock       Action = "driver.lock"
	SpaceCreate      Action = "space.create"
	IdentityAdopt    Action = "identity.adopt"
	CallerIdentify   Action = "caller.identify"
	SessionOpen      Action = "session.open"
	SessionEnd       Action = "session.end"
	TokenCreate      Action = "token.create"
	TokenRevoke      Action = "token.revoke"
	LoginLink        Action = "login.link"
	LoginStart       Action = "login.start"
	LoginRevoke      Action = "login.revoke"
	ProtocolMint     Action = "protocol.mint"
	ProtocolUpdate   Action = "protocol.update"
	ProtocolDelete   Action = "protocol.delete"
	ProtocolRestore  Action = "protocol.restore"
	ProtocolImport   Action = "protocol.import"
	ProtocolExport   Action = "protocol.export"
	RunBegin         Action = "run.begin"
	RunContinue      Action = "run.continue"
	RunCancel        Action = "run.cancel"
	RunDecide        Action = "run.decide"
	RunAbandon       Action = "run.abandon"
	RunExport        Action = "run.export"
	RunRedact        Action = "run.redact"
	RunPrune         Action = "run.prune"
	ApprovalGive     Action = "approval.give"
	ApprovalDecline  Action = "approval.decline"
	ApprovalUndo     Action = "approval.undecline"
	AcceptanceRecord Action = "acceptance.record"
	AcceptanceRevoke Action = "acceptance.revoke"
	auditCheck       Action = "audit.check"
)

// Actions are all of them, in the order of the manual, each with what its lines say.
var Actions = []struct {
	Action  Action
	Meaning string
}{
	{ServerRun, "a server runs, from its start to its end; `digest` tells its drivers and configuration from others"},
	{SetupReload, "a server takes up changed drivers, a changed tree or configuration; `digest` as above"},
	{SetupRollback, "it goes back to those before"},
	{DriverInstall, "drivers are installed; the details have the version and the SHA-256 of each"},
	{DriverRemove, "a driver is removed"},
	{DriverLock, "`drivers.lock` of a folder is written"},
	{SpaceCreate, "a space is made"},
	{IdentityAdopt, "what one principal has is given to another one, or to a space"},
	{CallerIdentify, "somebody is refused whose token does not count, or who names a space of others in the query"},
	{SessionOpen, "a client begins an MCP session over HTTP; the object is the begin of the digest of its id"},
	{SessionEnd, "a client ends it"},
	{TokenCreate, "an access token is made"},
	{TokenRevoke, "an access token is revoked"},
	{LoginLink, "a link is made that logs somebody in"},
	{LoginStart, "somebody logs in with a browser, or is refused; `how` is `link` or `provider`"},
	{LoginRevoke, "a login is ended by its person or the operator"},
	{ProtocolMint, "protocols are stored"},
	{ProtocolUpdate, "a step is changed"},
	{ProtocolDelete, "a step is deleted; with the first one the protocol"},
	{ProtocolRestore, "an old version is made the newest"},
	{ProtocolImport, "documents are imported, of which some may be refused"},
	{ProtocolExport, "the protocols of spaces are written to files"},
	{RunBegin, "a run was not begun, because the caller may not; runs themselves have a record of their own"},
	{RunContinue, "a run was not continued, because its owner may not any more"},
	{RunCancel, "what a driver does for a step is cancelled"},
	{RunDecide, "somebody says whether a call happened whose outcome is unknown"},
	{RunAbandon, "a run is ended that nobody will complete"},
	{RunExport, "a signed statement of a run is made"},
	{RunRedact, "evidence of a run is erased"},
	{RunPrune, "runs that ended long ago are removed"},
	{ApprovalGive, "a step is approved; `how` says in which way, and `by` names a person who has logged in. Where a client asks by a form, the principal is the owner of its session, who need not be the person"},
	{ApprovalDecline, "a step, or what it asks for, is declined"},
	{ApprovalUndo, "what was declined is asked again"},
	{AcceptanceRecord, "somebody accepts what drivers do for steps; `digest` is that of the protocol"},
	{AcceptanceRevoke, "an acceptance is revoked"},
	{auditCheck, "`kairos doctor` has looked whether a line can be written"},
}
