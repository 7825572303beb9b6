package operations_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api/client"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/setup"
)

var (
	_ operations.Drivers = (*driverhost.Host)(nil)
	_ operations.Setup   = (*setup.Current)(nil)
	_ operations.Engine  = (*decider)(nil)
)

// shell is a driver with these lines.
type shell []string

func (s shell) Status() []driverhost.Status {
	return []driverhost.Status{{Name: "shell", Version: "1.2.3"}}
}

func (s shell) Logs(_ string, after int) (lines []driverhost.Line, next int) {
	for _, text := range s[after:] {
		lines = append(lines, driverhost.Line{Text: text})
	}
	return lines, len(s)
}

// changes reports what it was asked, or refuses it.
type changes struct{ refuses bool }

func (c changes) Reload(_ context.Context, again ...string) (setup.Report, error) {
	if c.refuses {
		return setup.Report{}, errors.New("driver shell: its binary is not the locked one")
	}
	return setup.Report{Warnings: []string{fmt.Sprint("again ", again)}}, nil
}

func (c changes) Rollback(ctx context.Context) (setup.Report, error) { return c.Reload(ctx, "back") }

func serve(t *testing.T, e operations.Engine, m operations.Machine) (*client.Client, string) {
	t.Helper()
	s := httptest.NewServer(operations.NewHandler(e, m, func(operations.Operation) access.Caller { return access.Caller{Principal: "local", Operator: true} }))
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, "", s.Client())
	if err != nil {
		t.Fatal(err)
	}
	return c, s.URL
}

func TestTheOperatorOfTheMachineSeesAndChangesWhatTheServerRuns(t *testing.T) {
	log := new(operations.Log)
	ctx, drivers := t.Context(), shell{"one", "two", "three"}
	c, _ := serve(t, nil, operations.Machine{Info: func() operations.Info { return operations.Info{PID: 7} }, Drivers: drivers, Setup: changes{}, Log: log})
	if info, err := operations.ShowServer.Call(ctx, c, operations.NoRequest{}); err != nil || info.PID != 7 {
		t.Errorf("server_show = %+v, %v", info, err)
	}
	if all, err := operations.ListDrivers.Call(ctx, c, operations.NoRequest{}); err != nil || len(all.Drivers) != 1 || all.Drivers[0].Version != "1.2.3" {
		t.Errorf("drivers_list = %+v, %v", all, err)
	}
	if r, err := operations.ReloadDrivers.Call(ctx, c, operations.ReloadRequest{Drivers: []string{"shell", "mcp"}}); err != nil || r.Warnings[0] != "again [shell mcp]" {
		t.Errorf("drivers_reload = %+v, %v", r, err)
	}
	if r, err := operations.RollbackDrivers.Call(ctx, c, operations.NoRequest{}); err != nil || r.Warnings[0] != "again [back]" {
		t.Errorf("drivers_rollback = %+v, %v", r, err)
	}
	read := func(driver string, in operations.LogRequest) (string, int, error) {
		r, err := operations.DriverLogs.Call(ctx, c, operations.DriverLogsRequest{LogRequest: in, Driver: driver})
		text := ""
		for _, l := range r.Lines {
			text += l.Text + " "
		}
		return text, r.Next, err
	}
	for in, want := range map[operations.LogRequest]string{{Lines: 2}: "two three ", {Lines: 9}: "one two three ", {Lines: 1, After: 1}: "two three ", {Lines: 9, After: 3}: "", {Lines: -1}: ""} {
		if got, next, err := read("shell", in); err != nil || got != want || next != 3 {
			t.Errorf("drivers_logs %+v = %q, %d, %v, want %q, 3", in, got, next, err, want)
		}
	}
	if _, _, err := read("nobody", operations.LogRequest{}); fault.CodeOf(err) != fault.NotFound || !strings.Contains(err.Error(), `runs no driver "nobody"`) {
		t.Errorf("drivers_logs of nobody: %v", err)
	}
}

func TestTheServersOwnLogIsKeptAndReadByLevel(t *testing.T) {
	kept := new(operations.Log)
	log := slog.New(slog.NewJSONHandler(kept, nil))
	c, _ := serve(t, nil, operations.Machine{Log: kept})
	for i := range 1200 { // more than are kept
		log.Info(fmt.Sprint("served ", i))
	}
	log.Warn("slow")
	read := func(in operations.ServerLogsRequest) (got []string, next int) {
		t.Helper()
		r, err := operations.ServerLogs.Call(t.Context(), c, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range r.Records {
			_, text, _ := strings.Cut(string(record), `"msg":"`)
			text, _, _ = strings.Cut(text, `"`)
			got = append(got, text)
		}
		return got, r.Next
	}
	for name, tc := range map[string]struct {
		lines int
		level slog.Level
		want  []string
	}{
		"the last three": {3, slog.LevelInfo, []string{"served 1198", "served 1199", "slow"}},
		"from warn on":   {3, slog.LevelWarn, []string{"slow"}},
	} {
		if got, _ := read(operations.ServerLogsRequest{LogRequest: operations.LogRequest{Lines: tc.lines}, Level: tc.level}); cmp.Diff(tc.want, got) != "" {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	all, next := read(operations.ServerLogsRequest{LogRequest: operations.LogRequest{Lines: 5000}})
	if len(all) != 1000 || all[0] != "served 201" {
		t.Errorf("all that are kept are %d, the first %q, want 1000 from served 201", len(all), all[0])
	}
	log.Error("broken")
	if got, _ := read(operations.ServerLogsRequest{LogRequest: operations.LogRequest{Lines: 1, After: next}, Level: slog.LevelWarn}); cmp.Diff([]string{"broken"}, got) != "" {
		t.Errorf("behind the position: %q, want what was logged since", got)
	}
}

func TestTheSocketServesTheOperationsOfRESTAsTheOperator(t *testing.T) {
	d := new(decider)
	c, _ := serve(t, d, operations.Machine{})
	_, err := operations.DecideRun.Call(t.Context(), c, operations.DecideRunRequest{RunRequest: operations.RunRequest{RunID: "r1"}, Happened: true, Reason: "I looked", By: "ann"})
	if err != nil || d.told.Run != run.ID("r1") || d.told.By != "ann" {
		t.Errorf("told %+v, %v", d.told, err)
	}
}

func TestRefusalsAndOddRequestsSayWhy(t *testing.T) {
	_, address := serve(t, nil, operations.Machine{Drivers: shell{}, Setup: changes{refuses: true}, Log: new(operations.Log)})
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		want               string
	}{
		"no such thing":   {"POST", "/api/nothing", "", 404, "there is no operation POST /api/nothing"},
		"other method":    {"GET", "/api/drivers_reload", "", 404, "there is no operation GET"},
		"not JSON":        {"POST", "/api/drivers_reload", `reload!`, 400, "arguments"},
		"huge":            {"POST", "/api/drivers_reload", `{"drivers": ["` + strings.Repeat("x", 2<<20) + `"]}`, 400, "too large"},
		"odd level":       {"POST", "/api/server_logs", `{"level":"loud"}`, 400, "loud"},
		"a refusal":       {"POST", "/api/drivers_reload", "", 409, "driver shell: its binary is not the locked one"},
		"a run of nobody": {"POST", "/api/runs_show", "{}", 400, "run_id is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tc.method, address+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			var b strings.Builder
			if err := res.Write(&b); err != nil || res.StatusCode != tc.status || !strings.Contains(b.String(), tc.want) {
				t.Errorf("%s %s = %d %s, want %d and %q", tc.method, tc.path, res.StatusCode, b.String(), tc.status, tc.want)
			}
		})
	}
}
