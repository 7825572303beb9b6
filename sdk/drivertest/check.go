package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
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

// scope is the drivers that a rule concerns and the samples that it works on.
type scope struct {
	text  string
	skips []func(Subject) error // each says why the rule does not concern a driver, or nil
}

func on(text string, skips ...func(Subject) error) scope { return scope{text, skips} }

var (
	everyDriver   = on("every driver")
	everyProgram  = on("every program", started)
	grpcProgram   = on("programs that serve gRPC", lasting, started)
	pureDriver    = on("pure drivers; every sample", pure)
	tameDriver    = on("drivers that change nothing; every sample", tame)
	configurable  = on("drivers with a config_schema", configured)
	everySample   = on("every sample")
	advanceSample = on("challenge drivers; Advance samples", judges)
	declinedSteps = on("challenge drivers; Advance samples that are declined", judges)
	renderSample  = on("capability drivers; Render samples, also derived ones", asks)
	interpSample  = on("capability drivers; Interpret samples", asks)
	declinedAsks  = on("capability drivers; Interpret samples that are declined", asks)
	previewSample = on("capability drivers with the feature preview; Render samples", plans)
	waitSample    = on("samples that come to pending")
	actSample     = on("drivers of effect changes and the feature recover; samples that are accepted, answered or pending")
)

func asks(s Subject) error {
	if s.Capability == nil {
		return unconcerned("it is not a capability driver")
	}
	return nil
}

func judges(s Subject) error {
	if s.Challenge == nil {
		return unconcerned("it is not a challenge driver")
	}
	return nil
}

func started(s Subject) error {
	if s.Program == nil {
		return skip("there is no program to start", "a binary: kairos driver test BINARY")
	}
	return nil
}

func lasting(s Subject) error {
	if s.Descriptor.Transport == driver.TransportExec {
		return unconcerned("a process of transport exec ends with its call")
	}
	return nil
}

func configured(s Subject) error {
	if s.Configurer == nil || len(s.Descriptor.ConfigSchema) == 0 {
		return unconcerned("it takes no configuration")
	}
	return nil
}

// pure is for what only a pure driver promises.
func pure(s Subject) error {
	if s.Descriptor.Effect != driver.EffectPure {
		return unconcerned(fmt.Sprintf("its effect is %q, so it may answer differently", s.Descriptor.Effect))
	}
	return nil
}

// tame is for what would change the world again and again.
func tame(s Subject) error {
	if s.Descriptor.Effect == driver.EffectChanges {
		return unconcerned("a call changes the world and is not repeated")
	}
	return nil
}

func plans(s Subject) error {
	if !s.Descriptor.Has(driver.FeaturePreview) {
		return unconcerned("it plans nothing: it lacks the feature " + driver.FeaturePreview)
	}
	return nil
}

func cancellable(s Subject) error {
	if !s.Descriptor.Has(driver.FeatureCancel) {
		return unconcerned("it is never asked to cancel: it lacks the feature " + driver.FeatureCancel)
	}
	return nil
}

// rule is a check with its scope.
type rule struct {
	id    string
	level Level
	of    scope
	why   string
	run   func(ctx context.Context, s Subject) error
}

func (r rule) check() Check {
	return Check{r.id, r.level, r.of.text, r.why, func(ctx context.Context, s Subject) error {
		for _, skip := range r.of.skips {
			if err := skip(s); err != nil {
				return err
			}
		}
		return r.run(ctx, s)
	}}
}

// Checks lists the contract, in the order in which it reads best.
func Checks() []Check {
	var all []Check
	for _, part := range [][]rule{
		descriptorRules(), processRules(), configRules(), callRules(), challengeRules(), capabilityRules(), previewRules(),
	} {
		for _, r := range part {
			all = append(all, r.check())
		}
	}
	return all
}

func descriptorRules() []rule {
	return []rule{
		{"descriptor/valid", Must, everyDriver, "the host refuses a driver whose descriptor is unsound", descriptorValid},
		{"descriptor/static", Must, on("drivers over a wire"), "the descriptor is the same on every Describe, in every process and with --describe", descriptorStatic},
	}
}

func processRules() []rule {
	return []rule{
		{"process/starts", Must, everyProgram, "started as the host starts it, it comes up and describes itself", processStarts},
		{"process/starts-soon", Should, everyProgram, "it is up within a second", processStartsSoon},
		{"process/clean-environment", Should, everyProgram, "it starts with nothing in its environment but a PATH", processCleanEnvironment},
		{"process/by-hand", Should, everyProgram, "run by hand it ends within a second, with a status other than 0 and a word on stderr", processByHand},
		{quietID, Must, everyProgram, "stdout belongs to the wire: nothing else is printed there", processQuiet},
		{"process/stderr-text", Should, everyProgram, "what it writes to stderr is text in UTF-8", processStderr},
		{"process/lifeline", Must, grpcProgram, "it ends within a second when its host dies", processLifeline},
	}
}

func configRules() []rule {
	return []rule{
		{"config/nonsense", Must, configurable, "configuration that is not JSON is a diagnostic or an error, never taken", configNonsense},
		{"config/sound", Must, configurable, "the configuration of the samples is taken, or none if none is required", configSound},
		{"config/unknown-key", Must, configurable, "a key that the schema does not know is refused", configUnknownKey},
		{"config/wrong-type", Must, configurable, "a value of another type than the schema says is refused", configWrongType},
		{"config/dry-run", Must, configurable, "a dry run leaves no trace: calls answer as before", configDryRun},
	}
}

func callRules() []rule {
	return []rule{
		{"health/answers", Must, everyDriver, "an idle driver with a sound configuration is healthy", healthAnswers},
		{soundResultID, Must, everySample, "a call gives a result, and it has exactly one outcome, valid JSON and well-formed parts", soundResults},
		{"sample/outcome", Must, everySample, "each sample comes to the outcome that it names", sampleOutcome},
		{"call/says-why", Should, everySample, "who refuses says why: a diagnostic, a message or a reason", saysWhy},
		{"call/repeatable", Must, pureDriver, "a pure driver answers the same request the same way, ten times", repeatable},
		{"call/other-process", Must, on("programs of pure drivers; every sample", started, pure), "a pure driver answers the same in another process", otherProcess},
		{"call/concurrent", Must, tameDriver, "calls do not disturb each other", concurrent},
		{"call/cancelled", Must, everySample, "a call whose caller is gone ends within a second", cancelled},
		{"call/hostile-input", Must, tameDriver, "no input, however broken, makes a driver panic or give a reply that breaks the contract", hostileInput},
		{"call/huge-input", Must, tameDriver, "documents of 8 MiB and very deep ones end no process and are answered within 30 s", hugeInput},
		{"call/size-limits", Must, tameDriver, "results stay below 16 MiB and answers below 8 MiB, also for large input", sizeLimits},
		{"call/pending", Must, waitSample, "pending comes from a driver that may wait, with a reason, a retry_after of 0 to 3600 s and a progress of 0 to 1", pendingSound},
		{"call/pending-continues", Must, waitSample, "asked again under its key, in another process too, a pending call continues: it does not begin anew and is not lost", pendingContinues},
		{"call/acts-once", Must, actSample, "the same key twice comes to the outcome of the first call, to unknown or to an error, not to another act", actsOnce},
		{"call/recovers", Must, actSample, "asked with recover about a key that it acted for, in another process too, it gives the outcome", recovered},
		{"call/recover-outcomes", Must, on("every sample; of drivers of effect changes and the feature recover also keys never seen"), "of a key that it never saw it says unknown or not_done, and why; unknown comes only from effects, not_done only in reply to recover", recoverOutcomes},
		{"call/cancels", Must, on("drivers with the feature cancel; samples that come to pending, and keys never seen", cancellable), "asked to cancel, it ends what the call started within 5 s; of a key that it never saw it says unknown or not_done", cancels},
		{"call/not-done", Must, actSample, "after not_done another attempt, under another key, acts", anotherAttempt},
		{"call/late", Must, actSample, "after not_done a call with that key, which was still on its way, does not act", lateCall},
		{"call/no-growth", Must, on("drivers that change nothing, but not of transport exec", tame, lasting), "a thousand calls leave nothing behind: goroutines, threads, open files, memory", noGrowth},
	}
}

func challengeRules() []rule {
	return []rule{
		{"challenge/garbage", Must, on("challenge drivers", judges), "a challenge that is not a JSON object is a diagnostic, not an error", challengeGarbage},
		{"challenge/normal-form", Must, on("challenge drivers; Validate samples that are valid", judges), "a challenge with its defaults filled in is valid and stays as it is", normalForm},
		{"challenge/params-schema", Must, on("challenge drivers with a params_schema; Validate samples that are valid", judges), "parameters that it takes fit its params_schema, and the schema is one that the host can use", fitsParams},
		{"challenge/output-schema", Must, on("challenge drivers with an output_schema; Advance samples that are accepted", judges), "the output fits its output_schema, unless the step has a schema of its own", fitsOutput},
		{"challenge/pointers", Must, on("challenge drivers; Validate samples", judges), "pointers of diagnostics and templates are RFC 6901, escapings are known ones", challengePointers},
		{"challenge/inputs", Must, advanceSample, "it asks for no approval and no run input: those are the host's", challengeInputs},
		{"challenge/description", Should, advanceSample, "an input it needs says what is wanted and has a schema", challengeDescription},
		{"challenge/unknown-answers", Must, on("pure challenge drivers; Advance samples", judges, pure), "answers to inputs that the driver never asked for change nothing", unknownAnswers},
		{"challenge/declined", Must, declinedSteps, "a person's decline stays one in later rounds", challengeDeclined},
		{"challenge/no-is-final", Must, declinedSteps, "after a decline nothing else in the request makes it accepted", challengeNoIsFinal},
		{"challenge/unknown-state", Must, on("challenge drivers with state_versions; Advance samples that are judged", judges), "state of a version it does not list leads to no verdict", unknownState},
		{"challenge/state-version", Must, advanceSample, "the state it returns is of a version that it lists", stateVersion},
		{"challenge/asks-first", Must, on("challenge drivers of effect changes; Advance samples", judges), "without answers it only says what the step needs: it does not act, and asked with recover it tells of no act", asksFirst},
		{"challenge/observed", Must, advanceSample, "only a driver that looks at the world says that it observed", challengeObserved},
	}
}

func capabilityRules() []rule {
	return []rule{
		{"capability/needs", Must, on("capability drivers with needs; Render samples, also derived ones", asks), "without the client capabilities it needs a driver is unavailable", capabilityNeeds},
		{"capability/undeclared", Must, renderSample, "it renders no request that its descriptor does not list, or that the client did not declare", capabilityUndeclared},
		{"capability/other-kinds", Should, on("capability drivers", asks), "an input of a kind that it does not handle is unavailable", capabilityOtherKinds},
		{"capability/approval-default", Must, on("capability drivers that handle approval", asks), "a form for an approval has no default", capabilityApprovalDefault},
		{"capability/secrets", Must, renderSample, "no form asks for a secret", capabilitySecrets},
		{"capability/review", Must, renderSample, "only a driver of clients that review leaves an approval to the client, and nothing else", capabilityReview},
		{"capability/elsewhere", Must, renderSample, "only a driver of people leaves an approval to its page, and only where there is one", capabilityElsewhere},
		{"capability/how", Must, on("capability drivers that handle approval", asks), "an approval is answered in a way that was asked for, and the driver says in which", capabilityHow},
		{"capability/provenance", Must, on("capability drivers; every sample", asks), "it claims no more for an answer than its features and its effect class allow", capabilityProvenance},
		{"capability/client-error", Must, interpSample, "a client's error is never an answer", clientError},
		{"capability/any-reply", Must, interpSample, "Interpret expects anything and fails at nothing", anyReply},
		{"capability/declined", Must, declinedAsks, "a person's decline counts with every client", capabilityDeclined},
		{"capability/no-is-final", Must, declinedAsks, "a decline that carries the content of an approval is not an answer", capabilityNoIsFinal},
	}
}
