package driverhost

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
)

// Exec is a driver on the exec transport with its isolation, outside of a host.
type Exec struct {
	calls   *execCalls
	starter *starter
	binary  *binary

	confinement *confinement
}

// ExecSetup says how an Exec is run.
type ExecSetup struct {
	Env, Secrets []string
	Config       json.RawMessage
	MemoryMiB    int
	Offline      bool
	Isolation    string // "Landlock" or "nothing": deny the network by this although there may be something better
	Confinement  Confinement
	Launcher     bool     // the feature
	Read, Write  []string // what it may use
}

// NewExec opens a binary without verifying it.
func NewExec(path string, s ExecSetup, log *slog.Logger) (*Exec, error) {
	b, err := openBinary(path)
	if err != nil {
		return nil, err
	}
	st, secret := newStarter(), redactorOf(s.Secrets...)
	s.Confinement.Level = cmp.Or(s.Confinement.Level, LevelNone)
	switch s.Isolation {
	case "Landlock":
		st.network = func() isolation { return byLandlock }
	case "nothing":
		st.network = func() isolation { return byNothing }
	}
	hide := newConfinement(s.Confinement, st, log)
	return &Exec{starter: st, binary: b, confinement: hide, calls: newExecCalls(execOptions{
		verified: b.again, env: s.Env, config: s.Config, says: newOutputLog(log, newJournal(), 1, secret), secret: secret,
		guard: newGuard("probe", guardConfig{memoryMiB: s.MemoryMiB, offline: s.Offline, launcher: s.Launcher, use: use{s.Read, s.Write}},
			st, hide, log),
	})}, nil
}

// Run makes one call.
func (e *Exec) Run(ctx context.Context, method, request string) (string, error) {
	reply, err := e.calls.run(ctx, method, []byte(request))
	return string(reply), err
}

// Protection is guard.protection.
func (e *Exec) Protection() []string { return e.calls.guard.protection() }

// CloseCalls closes the transport only.
func (e *Exec) CloseCalls() { e.calls.close() }

// Close ends everything.
func (e *Exec) Close() error {
	e.calls.close()
	e.starter.close()
	return errors.Join(e.binary.close(), e.confinement.temps.remove())
}

// Redact hides secrets in a text.
func Redact(text string, secrets ...string) string { return redactorOf(secrets...).hide(text) }

// RedactDriver hides the secrets of a driver in a text.
func RedactDriver(text string, envFrom []string, config, schema string) string {
	return newRedactor(environment(envFrom), json.RawMessage(config), json.RawMessage(schema)).hide(text)
}

// HideSecrets is hideSecrets.
func HideSecrets(config, schema string) string {
	return string(hideSecrets(json.RawMessage(config), json.RawMessage(schema)))
}

// CheckBinaryPermissions is checkBinaryPermissions.
func CheckBinaryPermissions(path string) error { return checkBinaryPermissions(path) }
