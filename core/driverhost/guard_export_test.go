package driverhost

import (
	"context"
	"encoding/json"
	"log/slog"
)

// Exec is a driver on the exec transport with its isolation, outside of a host.
type Exec struct {
	calls   *execCalls
	starter *starter
	binary  *binary
}

// ExecSetup says how an Exec is run.
type ExecSetup struct {
	Env, Secrets []string
	Config       json.RawMessage
	MemoryMiB    int
	Offline      bool
	Isolation    string // "Landlock", "user namespace" or "nothing": use this although there may be something better
	Confinement  Confinement
	Launcher     bool // the feature
	ByLauncher   bool // the namespace is made as it is for users without privileges
}

// NewExec opens a binary without verifying it.
func NewExec(path string, s ExecSetup, log *slog.Logger) (*Exec, error) {
	b, err := openBinary(path)
	if err != nil {
		return nil, err
	}
	st, secret := newStarter(), redactorOf(s.Secrets...)
	switch s.Isolation {
	case "Landlock":
		st.network = st.findLandlockOnce()
	case "user namespace":
		st.network = func() isolation { return byUserNamespace }
	case "nothing":
		st.network = func() isolation { return byNothing }
	}
	hide := newConfinement(s.Confinement, st, log)
	if s.ByLauncher {
		hide.find = func() confined { return confined{level: LevelNamespace, launcher: true} }
	}
	return &Exec{starter: st, binary: b, calls: newExecCalls(execOptions{
		verified: b.again, env: s.Env, config: s.Config, says: newOutputLog(log, newJournal(), 1, secret), secret: secret,
		guard: newGuard("probe", guardConfig{memoryMiB: s.MemoryMiB, offline: s.Offline, launcher: s.Launcher, use: foldersOf(s.Config)},
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
	return e.binary.close()
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
