package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/plugins/command/sandbox"
	"github.com/kairos-mcp/kairos/plugins/command/workspace"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// job is one command that runs, or has ended.
type job struct {
	plan   plan
	began  time.Time
	limit  time.Duration
	end    context.CancelCauseFunc
	done   chan struct{} // closed when result is set
	result driver.RenderResult
}

// kept is for how long the result of a command is known after its end.
const kept = time.Hour

// jobs are the commands of this process by the key of their call.
type jobs struct {
	mu  sync.Mutex // guards the fields below
	all map[string]*job
	// refused are keys under which nothing is run any more.
	refused map[string]bool
}

func newJobs() *jobs { return &jobs{all: make(map[string]*job), refused: make(map[string]bool)} }

func (js *jobs) find(key string) *job {
	js.mu.Lock()
	defer js.mu.Unlock()
	return js.all[key]
}

// add is false for a key that is known or refused.
func (js *jobs) add(key string, j *job) bool {
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.all[key] != nil || js.refused[key] {
		return false
	}
	js.all[key] = j
	return true
}

// refuse keeps a call that is still on its way from running anything.
func (js *jobs) refuse(key string) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if !js.refused[key] {
		js.refused[key] = true
		time.AfterFunc(kept, func() { js.forget(key) })
	}
}

func (js *jobs) forget(key string) {
	js.mu.Lock()
	defer js.mu.Unlock()
	delete(js.all, key)
	delete(js.refused, key)
}

// patience is how long a call waits for the end of a command before it answers that
// the command is running.
const patience = 2 * time.Second

// errCancelled is why a command ends that somebody cancelled.
var errCancelled = errors.New("it was cancelled")

// Render implements driver.Capability: it runs what was planned, once, and tells of
// it whenever it is asked again.
func (c *command) Render(ctx context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	c.shown.forget()
	j := c.running.find(req.IdempotencyKey)
	switch {
	case j != nil && req.Cancel:
		j.end(errCancelled)
	case j != nil:
	case req.Recover:
		return c.answerUnknown(req.IdempotencyKey), nil
	default:
		var why string
		if j, why = c.prepare(req); why != "" {
			return driver.CannotRender(why), nil
		}
		jobCtx, end := context.WithCancelCause(context.WithoutCancel(ctx))
		if j.end = end; !c.running.add(req.IdempotencyKey, j) {
			end(nil)
			if j = c.running.find(req.IdempotencyKey); j == nil {
				return driver.CannotRender(errClaimed.Error()), nil
			}
			return j.wait(ctx), nil
		}
		go c.run(jobCtx, req.IdempotencyKey, j)
	}
	return j.wait(ctx), nil
}

// prepare checks that what was planned is what the operator and the challenge still
// say.
func (c *command) prepare(req driver.RenderRequest) (*job, string) {
	a, why := read(req.Input)
	cfg := c.Now()
	var p plan
	switch {
	case why != "":
		return nil, why
	case cfg.Workspace == "":
		return nil, unset
	case json.Unmarshal(req.Plan, &p) != nil || p.Command == "":
		return nil, "there is no plan of what to run"
	}
	now, err := json.Marshal(cfg.plan(a, p.Snapshot))
	if err != nil {
		return nil, err.Error()
	}
	var was, is any
	if json.Unmarshal(req.Plan, &was) != nil || json.Unmarshal(now, &is) != nil || !reflect.DeepEqual(was, is) {
		return nil, "the challenge, or the operator's settings, have changed since this command was planned; it is planned anew with the next call"
	}
	return &job{plan: p, began: time.Now(), limit: cfg.sandbox(time.Duration(a.Seconds * float64(time.Second))).Time, done: make(chan struct{})}, ""
}

// answerUnknown answers for a command that this process knows nothing of.
func (c *command) answerUnknown(key string) driver.RenderResult {
	c.running.refuse(key)
	switch state, since, err := standingOf(key); {
	case err != nil:
		return driver.RenderUnknown("nobody can tell what came of the command: " + err.Error())
	case state == runs:
		return driver.RenderLater("another server runs the command", patience)
	case state == over && since < recordTime:
		return driver.RenderLater("another server ran the command, and is recording what came of it", patience)
	case state == over:
		return driver.RenderUnknown("another server ran the command to its end, and what came of it was not recorded")
	case c.Now().Repeatable:
		return driver.RenderNotDone("the process that was to run the command is gone, and the operator lets it run again")
	}
	return driver.RenderUnknown("the process that was to run the command is gone, and nobody saw how far it came")
}

// wait is the result, or that there is none yet.
func (j *job) wait(ctx context.Context) driver.RenderResult {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-j.done:
		return j.result
	case <-timer.C:
	case <-ctx.Done():
	}
	ran := time.Since(j.began)
	res := driver.RenderLater(fmt.Sprintf("the command is running: %s of at most %s", ran.Round(time.Second), j.limit), patience)
	res.Pending.Progress = new(min(1, ran.Seconds()/j.limit.Seconds()))
	return res
}

// run runs the command to its end.
func (c *command) run(ctx context.Context, key string, j *job) {
	defer time.AfterFunc(kept, func() { c.running.forget(key) })
	defer close(j.done)
	defer j.end(nil)
	result, err := c.claimed(ctx, key, j)
	var early *notStarted
	var late *writeError
	switch cancelled := errors.Is(context.Cause(ctx), errCancelled); {
	case err == nil:
		j.result = result
	case errors.As(err, &early) && cancelled:
		j.result = driver.RenderNotDone(errCancelled.Error() + " before it was run")
	case errors.As(err, &early):
		j.result = driver.CannotRender("the command was not run: " + err.Error())
	case cancelled && j.plan.harmless() && !errors.As(err, &late):
		j.result = driver.RenderNotDone(errCancelled.Error() + ", and changed nothing: it ran on a copy, without a network")
	default:
		j.result = driver.RenderUnknown("the command was started, and its end was not seen: " + err.Error())
	}
}

// notStarted is an error because of which nothing of a command was run. After any
// other error something may have been.
type notStarted struct{ error }

func (e *notStarted) Unwrap() error { return e.error }

// writeError is an error of writing changes back to the workspace.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }

// harmless reports whether a command that did not end can have changed nothing but
// its copy.
func (p plan) harmless() bool { return p.Network == "none" && len(p.Wrapper) == 0 }

// claimed runs the command unless a process has claimed its key.
func (c *command) claimed(ctx context.Context, key string, j *job) (driver.RenderResult, error) {
	own, err := claimKey(key)
	if err != nil {
		return driver.RenderResult{}, &notStarted{err}
	}
	defer own.end()
	return c.onCopy(ctx, j)
}

// onCopy runs the command on a copy of the workspace.
func (c *command) onCopy(ctx context.Context, j *job) (driver.RenderResult, error) {
	cfg := c.Now()
	s := cfg.sandbox(j.limit)
	files, remove, err := s.Private()
	if err != nil {
		return driver.RenderResult{}, &notStarted{err}
	}
	defer func() {
		// The command may have kept others from removing its files, and what became of it
		// does not depend on that.
		if err := remove(); err != nil {
			slog.Error("cannot remove the copy on which a command ran; remove it by hand", "folder", filepath.Dir(files), "error", err)
		}
	}()
	snapshot, err := c.copied(ctx, j, s, files)
	if err != nil {
		return driver.RenderResult{}, &notStarted{err}
	}
	ran, err := s.Run(ctx, sandbox.Command{Line: j.plan.Command, Files: files, Workspace: cfg.Workspace})
	if start := (*sandbox.StartError)(nil); errors.As(err, &start) {
		err = &notStarted{err}
	}
	if err != nil {
		return driver.RenderResult{}, err
	}
	var changed []string
	if j.plan.Writes && ran.ExitCode == 0 && ran.Ended == "" {
		if changed, err = snapshot.WriteBack(ctx, files); err != nil {
			return driver.RenderResult{}, &writeError{err}
		}
	}
	return answer(j.plan, ran, changed)
}

// copied copies the workspace, which must be as it was planned.
func (c *command) copied(ctx context.Context, j *job, s sandbox.Sandbox, files string) (workspace.Snapshot, error) {
	snapshot, err := c.Now().take(ctx)
	if err != nil {
		return snapshot, err
	}
	if snapshot.Digest != j.plan.Snapshot {
		return snapshot, errors.New("the workspace was changed since it was planned; it is planned anew with the next call")
	}
	if err := snapshot.Put(ctx, files); err != nil {
		return snapshot, err
	}
	return snapshot, s.Hand(files)
}

// report is the evidence that a shell challenge takes, and what was observed besides.
type report struct {
	ExitCode int      `json:"exit_code"`
	Stdout   string   `json:"stdout"`
	Stderr   string   `json:"stderr"`
	Seconds  float64  `json:"duration_seconds"`
	Observed observed `json:"observed"`
}

type observed struct {
	Command  string   `json:"command"`
	Snapshot string   `json:"snapshot"`
	Network  string   `json:"network"`
	Env      []string `json:"env,omitempty"`
	Stdout   streamed `json:"stdout"`
	Stderr   streamed `json:"stderr"`
	Ended    string   `json:"ended,omitempty"` // why the sandbox ended it
	Changed  []string `json:"changed,omitempty"`
}

type streamed struct {
	Bytes  int64    `json:"bytes"`
	Digest string   `json:"digest"`
	Notes  []string `json:"notes,omitempty"`
}

// exitOfEnded is the code of a command that the sandbox ended, as that of timeout(1).
const exitOfEnded = 124

func answer(p plan, res sandbox.Result, changed []string) (driver.RenderResult, error) {
	r := report{
		ExitCode: res.ExitCode, Stdout: res.Stdout.Text, Stderr: res.Stderr.Text, Seconds: res.Took.Round(time.Millisecond).Seconds(),
		Observed: observed{
			Command: p.Command, Snapshot: p.Snapshot, Network: p.Network, Env: p.Env, Ended: res.Ended, Changed: changed,
			Stdout: streamed{res.Stdout.Bytes, res.Stdout.Digest, res.Stdout.Notes},
			Stderr: streamed{res.Stderr.Bytes, res.Stderr.Digest, res.Stderr.Notes},
		},
	}
	if res.Ended != "" {
		r.ExitCode = exitOfEnded
		r.Stderr += "\nKAIROS ended the command: " + res.Ended
	}
	value, err := json.Marshal(r)
	if err != nil {
		return driver.RenderResult{}, err
	}
	return driver.RenderResult{Answer: &driver.Answer{Value: value, Provenance: driver.ServerObserved}}, nil
}
