package drivertest

import (
	"context"
	"errors"
	"strings"
)

// Level says how much a check weighs.
type Level string

// The levels.
const (
	// Must: a driver that breaks the rule fails the verdict.
	Must Level = "MUST"
	// Should: a driver that breaks the rule gets a warning.
	Should Level = "SHOULD"
)

// Check is one rule of the contract. Its id never changes its meaning.
type Check struct {
	ID    string
	Level Level
	// On says which drivers it concerns and which samples it works on.
	On string
	// Why is the rule, as a claim about a sound driver.
	Why string
	// Run returns what is wrong, nil, or a *Skip when there was nothing to
	// check the driver with.
	Run func(ctx context.Context, s Subject) error
}

// Skip is what a check returns that could not run.
type Skip struct {
	Why string
	// Give says what would make it run; empty: nothing, the rule does not
	// concern this driver.
	Give string
}

// Error implements error.
func (s *Skip) Error() string {
	if s.Give == "" {
		return s.Why
	}
	return s.Why + "; give " + s.Give
}

func skip(why, give string) error { return &Skip{Why: why, Give: give} }

// unconcerned says that the rule is not about this driver.
func unconcerned(why string) error { return &Skip{Why: why} }

// onlySkip reports whether err is nothing but a skip.
func onlySkip(err error) (*Skip, bool) {
	s, ok := err.(*Skip) //nolint:errorlint // a skip inside of a real finding must not hide it
	return s, ok
}

// group is the part of an id before the slash.
func group(id string) string {
	g, _, _ := strings.Cut(id, "/")
	return g
}

var errNoConfig = errors.New("it refuses to work without a configuration")

const (
	everyDriver   = "every driver"
	everyProgram  = "every program"
	grpcProgram   = "programs that serve gRPC"
	pureDriver    = "pure drivers; every sample"
	tameDriver    = "drivers without effects; every sample"
	configurable  = "drivers with a config_schema"
	everySample   = "every sample"
	advanceSample = "challenge drivers; Advance samples"
	renderSample  = "capability drivers; Render samples, also derived ones"
	interpSample  = "capability drivers; Interpret samples"
	waitSample    = "samples that come to pending"
	actSample     = "drivers with effects and the feature recover; samples that are accepted, answered or pending"
)

// Checks lists the contract, in the order in which it reads best.
func Checks() []Check {
	var all []Check
	for _, part := range [][]Check{
		descriptorChecks(), processChecks(), configChecks(), callChecks(), challengeChecks(), capabilityChecks(), previewChecks(),
	} {
		all = append(all, part...)
	}
	return all
}

func descriptorChecks() []Check {
	return []Check{
		{"descriptor/valid", Must, everyDriver, "the host refuses a driver whose descriptor is unsound", descriptorValid},
		{"descriptor/static", Must, "drivers over a wire", "the descriptor is the same on every Describe, in every process and with --describe", descriptorStatic},
	}
}

func processChecks() []Check {
	return []Check{
		{"process/starts", Must, everyProgram, "started as the host starts it, it comes up and describes itself", processStarts},
		{"process/starts-soon", Should, everyProgram, "it is up within a second", processStartsSoon},
		{"process/clean-environment", Should, everyProgram, "it starts with nothing in its environment but a PATH", processCleanEnvironment},
		{"process/by-hand", Should, everyProgram, "run by hand it ends within a second, with a status other than 0 and a word on stderr", processByHand},
		{quietID, Must, everyProgram, "stdout belongs to the wire: nothing else is printed there", processQuiet},
		{"process/stderr-text", Should, everyProgram, "what it writes to stderr is text in UTF-8", processStderr},
		{"process/lifeline", Must, grpcProgram, "it ends within a second when its host dies", processLifeline},
	}
}

func configChecks() []Check {
	return []Check{
		{"config/nonsense", Must, configurable, "configuration that is not JSON is a diagnostic or an error, never taken", configNonsense},
		{"config/sound", Must, configurable, "the configuration of the samples is taken, or none if none is required", configSound},
		{"config/unknown-key", Must, configurable, "a key that the schema does not know is refused", configUnknownKey},
		{"config/wrong-type", Must, configurable, "a value of another type than the schema says is refused", configWrongType},
		{"config/dry-run", Must, configurable, "a dry run leaves no trace: calls answer as before", configDryRun},
	}
}

func callChecks() []Check {
	return []Check{
		{"health/answers", Must, everyDriver, "an idle driver with a sound configuration is healthy", healthAnswers},
		{soundResultID, Must, everySample, "a call gives a result, and it has exactly one outcome, valid JSON and well-formed parts", soundResults},
		{"sample/outcome", Must, everySample, "each sample comes to the outcome that it names", sampleOutcome},
		{"call/says-why", Should, everySample, "who refuses says why: a diagnostic, a message or a reason", saysWhy},
		{"call/repeatable", Must, pureDriver, "a pure driver answers the same request the same way, ten times", repeatable},
		{"call/other-process", Must, "programs of pure drivers; every sample", "a pure driver answers the same in another process", otherProcess},
		{"call/concurrent", Must, tameDriver, "calls do not disturb each other", concurrent},
		{"call/cancelled", Must, everySample, "a call whose caller is gone ends within a second", cancelled},
		{"call/hostile-input", Must, tameDriver, "no input, however broken, makes a driver panic or give a reply that breaks the contract", hostileInput},
		{"call/huge-input", Must, tameDriver, "documents of 8 MiB and very deep ones end no process and are answered within 30 s", hugeInput},
		{"call/size-limits", Must, tameDriver, "results stay below 16 MiB and answers below 8 MiB, also for large input", sizeLimits},
		{"call/pending", Must, waitSample, "pending comes from a driver that may wait, with a reason, a retry_after of 0 to 3600 s and a progress of 0 to 1", pendingSound},
		{"call/pending-continues", Must, waitSample, "asked again under its key, in another process too, a pending call continues: it does not begin anew and is not lost", pendingContinues},
		{"call/acts-once", Must, actSample, "the same key twice comes to the outcome of the first call, to unknown or to an error, not to another act", actsOnce},
		{"call/recovers", Must, actSample, "asked with recover about a key that it acted for, in another process too, it gives the outcome", recovered},
		{"call/recover-outcomes", Must, "every sample; of drivers with effects and the feature recover also keys never seen", "of a key that it never saw it says unknown or not_done, and why; unknown comes only from effects, not_done only in reply to recover", recoverOutcomes},
		{"call/cancels", Must, "drivers with the feature cancel; samples that come to pending, and keys never seen", "asked to cancel, it ends what the call started within 5 s; of a key that it never saw it says unknown or not_done", cancels},
		{"call/not-done", Must, actSample, "after not_done another attempt, under another key, acts", anotherAttempt},
		{"call/late", Must, actSample, "after not_done a call with that key, which was still on its way, does not act", lateCall},
		{"call/no-growth", Must, "drivers without effects, but not of transport exec", "a thousand calls leave nothing behind: goroutines, threads, open files, memory", noGrowth},
	}
}

func challengeChecks() []Check {
	return []Check{
		{"challenge/garbage", Must, "challenge drivers", "a challenge that is not a JSON object is a diagnostic, not an error", challengeGarbage},
		{"challenge/normal-form", Must, "challenge drivers; Validate samples that are valid", "a challenge with its defaults filled in is valid and stays as it is", normalForm},
		{"challenge/pointers", Must, "challenge drivers; Validate samples", "pointers of diagnostics and templates are RFC 6901, escapings are known ones", challengePointers},
		{"challenge/inputs", Must, advanceSample, "it asks for no approval and no run input: those are the host's", challengeInputs},
		{"challenge/description", Should, advanceSample, "an input it needs says what is wanted and has a schema", challengeDescription},
		{"challenge/unknown-answers", Must, "pure challenge drivers; Advance samples", "answers to inputs that the driver never asked for change nothing", unknownAnswers},
		{"challenge/declined", Must, "challenge drivers; Advance samples that are declined", "a person's decline stays one in later rounds", challengeDeclined},
		{"challenge/no-is-final", Must, "challenge drivers; Advance samples that are declined", "after a decline nothing else in the request makes it accepted", challengeNoIsFinal},
		{"challenge/unknown-state", Must, "challenge drivers with state_versions; Advance samples that are judged", "state of a version it does not list leads to no verdict", unknownState},
		{"challenge/state-version", Must, advanceSample, "the state it returns is of a version that it lists", stateVersion},
		{"challenge/asks-first", Must, "challenge drivers with effects; Advance samples", "without answers it only says what the step needs: it does not act, and asked with recover it tells of no act", asksFirst},
		{"challenge/observed", Must, advanceSample, "only a driver that looks at the world says that it observed", challengeObserved},
	}
}

func capabilityChecks() []Check {
	return []Check{
		{"capability/needs", Must, "capability drivers with needs; Render samples, also derived ones", "without the client capabilities it needs a driver is unavailable", capabilityNeeds},
		{"capability/undeclared", Must, renderSample, "it renders no request that its descriptor does not list, or that the client did not declare", capabilityUndeclared},
		{"capability/other-kinds", Should, "capability drivers", "an input of a kind that it does not handle is unavailable", capabilityOtherKinds},
		{"capability/approval-default", Must, "capability drivers that handle approval", "a form for an approval has no default", capabilityApprovalDefault},
		{"capability/secrets", Must, renderSample, "no form asks for a secret", capabilitySecrets},
		{"capability/review", Must, renderSample, "only a driver of clients that review leaves an approval to the client, and nothing else", capabilityReview},
		{"capability/elsewhere", Must, renderSample, "only a driver of people leaves an approval to its page, and only where there is one", capabilityElsewhere},
		{"capability/provenance", Must, "capability drivers; every sample", "it claims no more for an answer than its features and its effect class allow", capabilityProvenance},
		{"capability/client-error", Must, interpSample, "a client's error is never an answer", clientError},
		{"capability/any-reply", Must, interpSample, "Interpret expects anything and fails at nothing", anyReply},
		{"capability/declined", Must, "capability drivers; Interpret samples that are declined", "a person's decline counts with every client", capabilityDeclined},
		{"capability/no-is-final", Must, "capability drivers; Interpret samples that are declined", "a decline that carries the content of an approval is not an answer", capabilityNoIsFinal},
	}
}
