package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
	"github.com/kairos-mcp/kairos/core/server/socket"
	"github.com/kairos-mcp/kairos/core/setup"
	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// desired reads what a server should run with, at its start and at each reload.
func (s Options) desired() (setup.Desired, error) {
	var w setup.Desired
	if s.File != "" {
		w.Files = files.Absolute(s.File)
	}
	c, err := s.Load()
	if err != nil {
		return w, err
	}
	w.Settings, w.Rules, w.How, w.Realm, w.Restart = c.Facts(), c.RulesSource(), c.Approval.How, config.RealmOf(c), restartSettings(c)
	c.Drivers.Dir = cmp.Or(s.driversDir, c.Drivers.Dir)
	w.Files = append(w.Files, files.Absolute(c.Tree, c.Pinned(s.Dev), c.ToolsFile)...)
	if w.Tree, err = c.TreeSource(); err != nil {
		return w, err
	}
	if w.Drivers, err = s.hostConfig(c); err != nil {
		return w, err
	}
	if c.Audit.To != config.AuditOff {
		w.Digest, err = digestOf(c, w)
	}
	return w, err
}

// digestOf tells two states apart that a server runs with. The address of the database, which
// can have a password, is not in it.
func digestOf(c config.Config, w setup.Desired) (string, error) {
	restart := maps.Clone(w.Restart)
	delete(restart, "database")
	b, err := json.Marshal([]any{w.Drivers.Lock, w.Drivers.Drivers, w.Tree, c.Rules, w.Settings, w.How, restart})
	if err != nil {
		return "", fmt.Errorf("the digest of the configuration: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(b)), nil
}

// hostConfig returns the configuration of the driver host. With Dev the lock is
// made from the drivers that are there, and attached drivers are taken from the
// environment.
func (s Options) hostConfig(c config.Config) (driverhost.Config, error) {
	out := driverhost.Config{
		Dir: c.Drivers.Dir, Drivers: map[string]driverhost.DriverConfig{}, Dev: s.Dev,
	}
	for name, own := range c.Drivers.Settings {
		b, err := own.JSON()
		if err != nil {
			return out, fmt.Errorf("drivers.settings.%s.config: %w", name, err)
		}
		if err := there(c, name, own.Folders); err != nil {
			return out, err
		}
		out.Drivers[name] = driverhost.DriverConfig{
			Config: b, EnvFrom: own.EnvFrom, May: own.May, MemoryMiB: own.MemoryMiB, Folders: files.Absolute(own.Folders...), ReadOnly: read(name, b),
			Call: time.Duration(own.CallTimeout),
		}
	}
	hidden := Confinement(c, s.File)
	err := errors.Join(addTools(c.ToolsFile, slices.Concat(hidden.Private, hidden.Settings), &out), addCommand(c, s.File, &out))
	if err != nil {
		return out, err
	}
	if !s.Dev {
		out.Lock, err = c.ReadLock()
		return out, err
	}
	if out.Attach, err = driverrpc.ParseAttachments(os.Getenv(driverrpc.AttachEnv)); err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out.Lock, err = driverhost.DescribeAll(ctx, c.Drivers.Dir, hidden)
	return out, err
}

// there refuses a folder that does not exist: an isolated driver would make it in a place that
// only it sees.
func there(c config.Config, name string, folders []string) error {
	if c.Drivers.Isolation == string(driverhost.LevelNone) {
		return nil
	}
	for _, path := range files.Absolute(folders...) {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("drivers.settings.%s.folders: %w: make it before the driver starts, which cannot make it itself", name, err)
		}
	}
	return nil
}

// read are the paths that the configuration of a driver names. That of the driver that
// runs commands names also what must not be seen: see addCommand.
func read(name string, given json.RawMessage) []string {
	if name == commandDriver {
		return nil
	}
	return driverhost.PathsIn(given)
}

// Confinement says how drivers are isolated, and which files are the server's own. more
// are drivers folders besides the configured one.
func Confinement(c config.Config, file string, more ...string) driverhost.Confinement {
	out := driverhost.Confinement{Level: driverhost.Level(c.Drivers.Isolation)}
	if c.Drivers.Isolation == config.IsolationAuto {
		out.Level = ""
	}
	private := slices.Concat(c.Database.Files(), socket.DefaultFolders(), more, []string{
		c.Drivers.Dir, c.Keys().StateFile(), c.Keys().SigningFile(), c.ToolsFile, c.Qdrant.APIKeyFile, c.Embedding.APIKeyFile, c.HTTP.TLS.Key, c.Audit.File,
	})
	if c.Admin.Socket != "" && c.Admin.Socket != config.AdminOff {
		own := adminSocket(c)
		private = append(private, own, socket.TokenFile(own))
		if info, err := os.Stat(c.Admin.Socket); strings.HasSuffix(c.Admin.Socket, "/") || err == nil && info.IsDir() {
			private = append(private, c.Admin.Socket)
		}
	}
	out.Private, out.Settings = absolutePaths(private...), absolutePaths(file, c.Tree)
	for _, s := range c.Drivers.Settings {
		out.Folders = append(out.Folders, files.Absolute(s.Folders...)...)
	}
	return out
}

// absolutePaths are the paths that are set, as absolute ones.
func absolutePaths(paths ...string) []string {
	set := files.Absolute(slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return path == "" })...)
	slices.Sort(set)
	return slices.Compact(set)
}

// commandDriver is the driver that runs commands.
const commandDriver = "command"

// callOfCommand is its call_timeout: a snapshot of a large workspace takes a while.
const callOfCommand = time.Minute

// memoryOfCommand is its memory_mib, with all that a command starts.
const memoryOfCommand = 4096

// addCommand tells the driver that runs commands which files are the server's own, so
// that no command sees them where the driver itself is not isolated.
func addCommand(c config.Config, file string, to *driverhost.Config) error {
	own := to.Drivers[commandDriver]
	if len(own.Config) == 0 {
		return nil
	}
	settings := map[string]any{}
	if err := json.Unmarshal(own.Config, &settings); err != nil {
		return fmt.Errorf("drivers.settings.%s.config: %w", commandDriver, err)
	}
	if err := relativePath(settings); err != nil {
		return err
	}
	mask, ok := settings["mask"].([]any)
	if settings["mask"] != nil && !ok {
		return fmt.Errorf("drivers.settings.%s.config.mask must be a list of paths", commandDriver)
	}
	delete(settings, "mask")
	rest, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	own.Folders = append(own.Folders, driverhost.PathsIn(rest)...)
	servers := Confinement(c, file)
	for _, path := range slices.Concat(servers.Private, servers.Settings) {
		mask = append(mask, path)
	}
	for _, path := range files.Absolute(c.Database.Files()...) {
		for _, suffix := range []string{"-wal", "-shm", "-journal", ".lock"} {
			mask = append(mask, path+suffix)
		}
	}
	settings["mask"] = mask
	if own.Config, err = json.Marshal(settings); err != nil {
		return err
	}
	own.Call, own.MemoryMiB = cmp.Or(own.Call, to.Call, callOfCommand), cmp.Or(own.MemoryMiB, memoryOfCommand)
	to.Drivers[commandDriver] = own
	return nil
}

// relativePath refuses a relative path, which would begin somewhere else where the driver
// runs. The driver itself refuses what is not a text.
func relativePath(settings map[string]any) error {
	for _, key := range []string{"workspace", "repositories", "read", "mask"} {
		paths, several := settings[key].([]any)
		if !several {
			paths = []any{settings[key]}
		}
		for _, path := range paths { // the driver itself refuses what is not a text
			if path, ok := path.(string); ok && path != "" && !filepath.IsAbs(path) {
				return fmt.Errorf("drivers.settings.%s.config.%s: %q must be an absolute path", commandDriver, key, path)
			}
		}
	}
	return nil
}

// memoryOfTools is the memory_mib of the driver and the servers that it starts, which
// are often programs of Node.js.
const memoryOfTools = 2048

// callOfTools is its call_timeout: programs start within it, and do something.
const callOfTools = time.Minute

// addTools gives the driver that calls tools the servers that kairos tools added.
// It does not see the file itself, which is kept from drivers like the database
// beside it. own are the files of this server.
func addTools(file string, own []string, to *driverhost.Config) error {
	b, err := files.Read(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	return addServers(file, b, own, to)
}

// CheckTools refuses tool servers with which the driver that calls them could not start:
// b is what tools.json will be, and configured the configuration file.
func CheckTools(c config.Config, configured string, b []byte) error {
	to := driverhost.Config{Drivers: map[string]driverhost.DriverConfig{}}
	if own, ok := c.Drivers.Settings[mcpclient.DriverName]; ok {
		to.Drivers[mcpclient.DriverName] = driverhost.DriverConfig{Folders: files.Absolute(own.Folders...)}
	}
	hidden := Confinement(c, configured)
	if err := addServers(c.ToolsFile, b, slices.Concat(hidden.Private, hidden.Settings), &to); err != nil {
		return err
	}
	return hidden.Check(to.Drivers[mcpclient.DriverName])
}

// addServers is addTools for the content of the file.
func addServers(file string, b []byte, own []string, to *driverhost.Config) error {
	f, err := mcpclient.Parse(b)
	if err != nil {
		return fmt.Errorf("%s: %w; %s", file, err, mcpclient.Fix(err))
	}
	tools := to.Drivers[mcpclient.DriverName]
	config := map[string]any{}
	if len(tools.Config) > 0 {
		if err := json.Unmarshal(tools.Config, &config); err != nil {
			return fmt.Errorf("drivers.settings.%s.config: %w", mcpclient.DriverName, err)
		}
	}
	read, named := f.Paths()
	tools.ReadOnly, tools.Folders = append(tools.ReadOnly, read...), append(tools.Folders, places(named, own)...)
	config["servers"] = string(b)
	if tools.Config, err = json.Marshal(config); err != nil {
		return err
	}
	tools.EnvFrom = slices.Concat(tools.EnvFrom, mcpclient.Passed(), f.EnvNames())
	slices.Sort(tools.EnvFrom)
	tools.EnvFrom = slices.Compact(tools.EnvFrom)
	tools.MemoryMiB = cmp.Or(tools.MemoryMiB, memoryOfTools)
	tools.Call = cmp.Or(tools.Call, to.Call, callOfTools)
	to.Drivers[mcpclient.DriverName] = tools
	return nil
}

// places are what the tool servers may use of the paths that they name. For a file they get its
// folder, in which the server makes it, or a new one in its place. In a folder that has files of
// this server or of everybody they get the file alone, once it exists.
func places(named, own []string) []string {
	var out []string
	for _, path := range named {
		info, err := os.Stat(path)
		dir := filepath.Dir(path)
		if folder, gone := os.Stat(dir); (err != nil || !info.IsDir()) && gone == nil && folder.IsDir() && !shared(dir, own) {
			out = append(out, dir)
			continue
		}
		if err == nil {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// shared reports whether a folder has files of this server, or is the system's, the home folder
// or the one for temporary files, or is above one of them.
func shared(dir string, own []string) bool {
	dir = sandbox.Real(dir)
	home, err := os.UserHomeDir()
	if err != nil || sandbox.OfSystem(dir) || sandbox.In(dir, sandbox.Real(home)) || sandbox.In(dir, sandbox.Real(os.TempDir())) {
		return true
	}
	return slices.ContainsFunc(own, func(path string) bool {
		path = sandbox.Real(path)
		return filepath.Dir(path) == dir || sandbox.In(path, dir)
	})
}

// Act has a driver do once what the input asks for, outside of any run and without an
// approval: an operator tries out what a server would do. The driver is started as a
// server starts it; the status says how it is limited, and what it warns of.
func (a *App) Act(ctx context.Context, via string, in driver.Input) (value json.RawMessage, status driverhost.Status, err error) {
	setup, release := a.setup.Hold()
	defer release()
	drv, ok := setup.Drivers.Capability(via, time.Minute)
	previewer, able := drv.(driver.Previewer)
	if !ok || !able {
		return nil, status, fmt.Errorf("there is no driver %s that says what it would do", via)
	}
	planned, err := previewer.Preview(ctx, driver.PreviewRequest{Input: in, Client: a.Caller().Client})
	switch {
	case err != nil:
		return nil, status, err
	case planned.Unavailable != nil:
		return nil, status, errors.New(planned.Unavailable.Reason)
	case planned.Plan == nil:
		return nil, status, errors.New("it needs a proposal first")
	}
	req := driver.RenderRequest{Input: in, Client: a.Caller().Client, Plan: planned.Plan.Data, IdempotencyKey: rand.Text(), Attempt: 1}
	res, err := drv.Render(ctx, req)
	for req.Recover = true; err == nil && res.Pending != nil; {
		res, err = drv.Render(ctx, req)
	}
	status, _ = a.host.StatusOf(via)
	return answered(res), status, errors.Join(err, unanswered(res))
}

func answered(res driver.RenderResult) json.RawMessage {
	if res.Answer == nil {
		return nil
	}
	return res.Answer.Value
}

func unanswered(res driver.RenderResult) error {
	switch {
	case res.Unavailable != nil:
		return errors.New(res.Unavailable.Reason)
	case res.Unknown != nil:
		return errors.New(res.Unknown.Reason)
	case res.NotDone != nil:
		return errors.New(res.NotDone.Reason)
	}
	return nil
}
