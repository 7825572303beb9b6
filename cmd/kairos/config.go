package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// config is kairos.yaml. Every key is optional; its zero value is the default
// that docs/operations.md states.
type config struct {
	// Database is the SQLite file; relative to the configuration file.
	Database       string               `yaml:"database"`
	DatabaseLimits databaseLimitsConfig `yaml:"database_limits"`
	// Store is where protocols are kept, sqlite or qdrant; runs are always in
	// the SQLite file. Empty: qdrant if its URL is set.
	Store  string       `yaml:"store"`
	Qdrant qdrantConfig `yaml:"qdrant"`
	// Tree is the file of the decision tree; empty: the one that is shipped.
	Tree      string          `yaml:"tree"`
	Drivers   driversConfig   `yaml:"drivers"`
	UserInput userInputConfig `yaml:"user_input"`
	Approval  approvalConfig  `yaml:"approval"`
	Sampling  samplingConfig  `yaml:"sampling"`
	Run       runConfig       `yaml:"run"`
	Attest    attestConfig    `yaml:"attest"`
	Handover  handoverConfig  `yaml:"handover"`
	Signing   signingConfig   `yaml:"signing"`
	Search    searchConfig    `yaml:"search"`
	Embedding embeddingConfig `yaml:"embedding"`
	MCP       mcpConfig       `yaml:"mcp"`
	HTTP      httpConfig      `yaml:"http"`
	Metrics   metricsConfig   `yaml:"metrics"`
	Admin     adminConfig     `yaml:"admin"`
	Log       logConfig       `yaml:"log"`
}

// databaseLimitsConfig bounds the room that the database takes, in bytes.
type databaseLimitsConfig struct {
	// MinFree must be free on its disk, or the server is not ready. Default
	// 64 MiB; -1: any number.
	MinFree int64 `yaml:"min_free"`
	// MaxSize of the file; what would make it larger is refused. 0: any number.
	MaxSize int64 `yaml:"max_size"`
}

func (c databaseLimitsConfig) limits() sqlite.Limits {
	return sqlite.Limits{MinFree: c.MinFree, MaxSize: c.MaxSize}
}

// smallestDatabase is what the built-in protocols and a few runs need.
const smallestDatabase = 1 << 20

func (c databaseLimitsConfig) problems() []error {
	var errs []error
	if c.MinFree < -1 {
		errs = append(errs, fmt.Errorf("database_limits.min_free is %d: must be a number of bytes, or -1 for any number", c.MinFree))
	}
	if c.MaxSize != 0 && c.MaxSize < smallestDatabase {
		errs = append(errs, fmt.Errorf("database_limits.max_size is %d: must be at least %d bytes, or 0 for any number", c.MaxSize, smallestDatabase))
	}
	return errs
}

type driversConfig struct {
	// Dir holds the driver binaries and drivers.lock; empty: "drivers" beside the program.
	Dir string `yaml:"dir"`
	// Watch: the server takes up changed files by itself. Default true.
	Watch *bool `yaml:"watch"`
	// IdleStop is after how much time without a call a driver is stopped until
	// the next one. Default 10m; 0s: never.
	IdleStop *duration `yaml:"idle_stop"`
	// CallTimeout bounds one call of a driver. Default 10s.
	CallTimeout duration `yaml:"call_timeout"`
	// Isolation is how drivers are kept from the server's own files: auto,
	// namespace, landlock or none. Default auto.
	Isolation string `yaml:"isolation"`
	// Settings of single drivers, by name.
	Settings map[string]driverSettings `yaml:"settings"`
}

type driverSettings struct {
	Config map[string]any `yaml:"config"`
	// EnvFrom names environment variables that the driver may see.
	EnvFrom []string `yaml:"env_from"`
	// AllowEffects lets a driver run that changes the world.
	AllowEffects bool `yaml:"allow_effects"`
	// Network: allow or deny. Default allow.
	Network string `yaml:"network"`
	// Folders are files and folders that the driver needs besides those that
	// its config names, where it is isolated by Landlock.
	Folders []string `yaml:"folders"`
	// MemoryMiB is how much memory the driver should do with, in MiB. Default 256.
	MemoryMiB int `yaml:"memory_mib"`
	// IdleStop and CallTimeout take the place of those of all drivers.
	IdleStop    *duration `yaml:"idle_stop"`
	CallTimeout duration  `yaml:"call_timeout"`
	// MaxProvenance is the strongest provenance that what the driver says is
	// recorded with. Default: any that its descriptor allows.
	MaxProvenance string `yaml:"max_provenance"`
	// Human: the driver may answer for a person. Default true.
	Human *bool `yaml:"human"`
}

// limits are what the driver may vouch for.
func (s driverSettings) limits() driverhost.Limits {
	return driverhost.Limits{MaxProvenance: driver.Provenance(s.MaxProvenance), NoPerson: s.Human != nil && !*s.Human}
}

type userInputConfig struct {
	// ServerDriver: the server obtains a person's input itself.
	ServerDriver bool `yaml:"server_driver"`
	// Driver comes first then: elicitation, sampling or agent.
	Driver string `yaml:"driver"`
}

type approvalConfig struct {
	// DelegateToClient: where nobody can be asked by form, the client's own
	// review of a sampling request stands for the approval. Default true.
	DelegateToClient *bool `yaml:"delegate_to_client"`
	// TrustAgent: the agent's word stands for a person's yes. Default false.
	TrustAgent bool     `yaml:"trust_agent"`
	TTL        duration `yaml:"ttl"`
	// Typed: who approves has to type the step's name. Default false.
	Typed bool `yaml:"typed"`
	// Approvers are principals who may answer approvals of others' runs.
	Approvers []string `yaml:"approvers"`
	// Listen is where a server over stdin and stdout serves the approval page;
	// empty: nowhere.
	Listen string `yaml:"listen"`
}

// samplingConfig bounds what language models are asked.
type samplingConfig struct {
	PerRun           budgetConfig `yaml:"per_run"`
	PerPrincipalHour budgetConfig `yaml:"per_principal_hour"`
}

// budgetConfig is a number of requests and of tokens granted; 0: unlimited.
type budgetConfig struct {
	Requests *int `yaml:"requests"`
	Tokens   *int `yaml:"tokens"`
}

// defaults lets far more through than protocols need, and stops a loop.
func (c *samplingConfig) defaults() {
	for at, n := range map[**int]int{
		&c.PerRun.Requests: 200, &c.PerRun.Tokens: 500_000,
		&c.PerPrincipalHour.Requests: 5000, &c.PerPrincipalHour.Tokens: 10_000_000,
	} {
		if *at == nil {
			*at = &n
		}
	}
}

func (c samplingConfig) budgets() engine.Budgets {
	return engine.Budgets{PerRun: c.PerRun.budget(), PerPrincipalHour: c.PerPrincipalHour.budget()}
}

func (b budgetConfig) budget() engine.Budget {
	return engine.Budget{Requests: *b.Requests, Tokens: *b.Tokens}
}

func (c samplingConfig) problems() []error {
	var errs []error
	for key, n := range map[string]*int{
		"per_run.requests": c.PerRun.Requests, "per_run.tokens": c.PerRun.Tokens,
		"per_principal_hour.requests": c.PerPrincipalHour.Requests, "per_principal_hour.tokens": c.PerPrincipalHour.Tokens,
	} {
		if *n < 0 {
			errs = append(errs, fmt.Errorf("sampling.%s is %d: must not be negative; 0 means unlimited", key, *n))
		}
	}
	return errs
}

type runConfig struct {
	TTL duration `yaml:"ttl"`
	// Keep is how long runs that have ended are kept; 0s: for ever.
	Keep duration `yaml:"keep"`
}

type attestConfig struct {
	RequireComplete bool `yaml:"require_complete"`
}

type signingConfig struct {
	// KeyFile holds the key that signs statements about runs. Empty:
	// signing.key beside the database, made when first needed.
	KeyFile string `yaml:"key_file"`
}

type searchConfig struct {
	ScoreThreshold   float64 `yaml:"score_threshold"`
	SimilarThreshold float64 `yaml:"similar_threshold"`
}

type mcpConfig struct {
	// PlainWait is how long a call without a progress token waits for a person.
	PlainWait duration `yaml:"plain_wait"`
	// ProgressWait is the same for a call with one.
	ProgressWait duration `yaml:"progress_wait"`
	// StateKeyFile holds the key that seals requestState; replicas share it.
	// Empty: state.key beside the database, made when first needed.
	StateKeyFile string `yaml:"state_key_file"`
}

type adminConfig struct {
	// Socket is where the commands of this machine reach a running server; one
	// that ends in a slash is a folder with a socket for each server. Empty: a
	// private folder of the user; "off": none.
	Socket string `yaml:"socket"`
}

type logConfig struct {
	Level  string `yaml:"level"`
	Format string `yaml:"format"`
}

// duration is a time.Duration whose errors name the line.
type duration time.Duration

func (d duration) String() string { return time.Duration(d).String() }

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (d *duration) UnmarshalYAML(n ast.Node) error {
	v, err := time.ParseDuration(strings.Trim(n.String(), `"'`))
	if err != nil {
		at := n.GetToken().Position
		return fmt.Errorf("[%d:%d] must be a duration such as 90s, 10m or 24h", at.Line, at.Column)
	}
	*d = duration(v)
	return nil
}

// source says where a configuration comes from.
type source struct {
	file, database string
	// overHTTP puts flags over the http section; nil: there are none.
	overHTTP func(*config)
	// logLevel is the level where none is configured; empty: info.
	logLevel string
}

// load reads the file, then the environment, then the flags. Its error lists
// every problem.
func (s source) load() (config, error) {
	c, err := s.assemble()
	if err != nil || c == nil {
		return config{}, err
	}
	return *c, nil
}

// assemble is load that returns what it could read although there are problems;
// nil if there is nothing to go by.
func (s source) assemble() (*config, error) {
	var c config
	problems, readable := s.read(&c)
	if !readable {
		return nil, errors.Join(problems...)
	}
	problems = append(problems, c.overlay(os.LookupEnv))
	if s.database != "" {
		c.Database = s.database
	}
	if s.overHTTP != nil {
		s.overHTTP(&c)
	}
	if c.Log.Level == "" {
		c.Log.Level = s.logLevel
	}
	if err := c.defaults(); err != nil {
		return nil, errors.Join(append(problems, err)...)
	}
	return &c, errors.Join(append(problems, c.validate())...)
}

// read reads the file. It reports false if nothing of it could be read.
func (s source) read(c *config) ([]error, bool) {
	if s.file == "" {
		return nil, true
	}
	b, err := readFile(s.file)
	if err != nil {
		return []error{fmt.Errorf("read the configuration: %w", err)}, false
	}
	problems, readable := c.decode(s.file, b)
	c.relativeTo(filepath.Dir(s.file))
	return problems, readable
}

// relativeTo makes paths of a file relative to its folder.
func (c *config) relativeTo(dir string) {
	for _, p := range append(c.HTTP.files(), &c.Database, &c.Tree, &c.Drivers.Dir, &c.MCP.StateKeyFile, &c.Handover.Dir, &c.Signing.KeyFile, &c.Qdrant.CACert, &c.Qdrant.APIKeyFile, &c.Embedding.APIKeyFile) {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	c.Embedding.relativeTo(dir)
	if p := &c.Admin.Socket; *p != "" && *p != adminOff && !filepath.IsAbs(*p) {
		folder := strings.HasSuffix(*p, "/")
		if *p = filepath.Join(dir, *p); folder {
			*p += "/"
		}
	}
}

// overlay applies the environment, whose names the earlier server's operators know.
func (c *config) overlay(lookup func(string) (string, bool)) error {
	var errs []error
	for name, to := range map[string]*string{
		"KAIROS_DB": &c.Database, "KAIROS_TREE": &c.Tree, "KAIROS_DRIVERS_DIR": &c.Drivers.Dir,
		"QDRANT_URL": &c.Qdrant.URL, "QDRANT_COLLECTION": &c.Qdrant.Collection, "QDRANT_CA_CERT_PATH": &c.Qdrant.CACert,
		"KAIROS_USER_INPUT_DRIVER": &c.UserInput.Driver, "LOG_LEVEL": &c.Log.Level, "LOG_FORMAT": &c.Log.Format,
	} {
		if v, ok := lookup(name); ok && v != "" {
			*to = v
		}
	}
	if v, ok := lookup("KAIROS_ENABLE_USER_INPUT_SERVER_DRIVER"); ok && v != "" {
		on, err := strconv.ParseBool(v)
		if err != nil {
			errs = append(errs, fmt.Errorf("environment KAIROS_ENABLE_USER_INPUT_SERVER_DRIVER=%q: must be true or false", v))
		}
		c.UserInput.ServerDriver = on
	}
	if v, ok := lookup("QDRANT_RESCORE"); ok && v != "" {
		on, err := strconv.ParseBool(v)
		if err != nil {
			errs = append(errs, fmt.Errorf("environment QDRANT_RESCORE=%q: must be true or false", v))
		}
		c.Qdrant.Rescore = &on
	}
	for name, to := range map[string]*float64{
		"SCORE_THRESHOLD": &c.Search.ScoreThreshold, "SIMILAR_MEMORY_THRESHOLD": &c.Search.SimilarThreshold,
	} {
		v, ok := lookup(name)
		if !ok || v == "" {
			continue
		}
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("environment %s=%q: must be a number from 0 to 1", name, v))
		}
		*to = f
	}
	return errors.Join(append(errs, c.HTTP.overlay(lookup), c.Metrics.overlay(lookup), checkAppSpace(lookup), c.Embedding.overlay(lookup))...)
}

func (c *config) defaults() error {
	if c.Database == "" {
		dir, err := dataDir()
		if err != nil {
			return err
		}
		c.Database = filepath.Join(dir, "kairos.db")
	}
	if c.Drivers.Dir == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the drivers beside this program: %w", err)
		}
		c.Drivers.Dir = filepath.Join(filepath.Dir(self), "drivers")
	}
	if c.MCP.StateKeyFile == "" {
		c.MCP.StateKeyFile = filepath.Join(filepath.Dir(c.Database), "state.key")
	}
	if c.Signing.KeyFile == "" {
		c.Signing.KeyFile = filepath.Join(filepath.Dir(c.Database), "signing.key")
	}
	c.httpDefaults()
	if c.UserInput.Driver == "" {
		c.UserInput.Driver = "elicitation"
	}
	if c.Approval.DelegateToClient == nil {
		yes := true
		c.Approval.DelegateToClient = &yes
	}
	c.Sampling.defaults()
	if c.Drivers.Watch == nil {
		yes := true
		c.Drivers.Watch = &yes
	}
	return nil
}

// dataDir is where a user's data belongs (XDG Base Directory specification).
func dataDir() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "kairos"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no place for the database: %w; name one with --db or KAIROS_DB", err)
	}
	return filepath.Join(home, ".local", "share", "kairos"), nil
}

// adminOff turns the admin socket off.
const adminOff = "off"

func (c config) validate() error {
	errs := slices.Concat(c.DatabaseLimits.problems(), c.Drivers.problems(), c.storeProblems(), c.Embedding.problems(), c.HTTP.problems(), c.Metrics.problems(), c.Sampling.problems(), c.Approval.problems())
	if d := c.UserInput.Driver; !slices.Contains([]string{"elicitation", "sampling", "agent"}, d) {
		errs = append(errs, fmt.Errorf("user_input.driver is %q: must be elicitation, sampling or agent", d))
	}
	for key, v := range map[string]float64{
		"search.score_threshold": c.Search.ScoreThreshold, "search.similar_threshold": c.Search.SimilarThreshold,
	} {
		if v < 0 || v > 1 {
			errs = append(errs, fmt.Errorf("%s is %v: must be from 0 to 1", key, v))
		}
	}
	for key, d := range map[string]duration{
		"approval.ttl": c.Approval.TTL, "run.ttl": c.Run.TTL, "run.keep": c.Run.Keep, "mcp.plain_wait": c.MCP.PlainWait, "mcp.progress_wait": c.MCP.ProgressWait,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is %s: must not be negative", key, d))
		}
	}
	if c.Handover.Dir != "" && c.Handover.InRoot {
		errs = append(errs, errors.New("handover.dir and handover.in_root are both set: the file is in one place or in the other"))
	}
	if _, err := c.Log.level(); err != nil {
		errs = append(errs, err)
	}
	if f := c.Log.Format; f != "" && f != "text" && f != "json" {
		errs = append(errs, fmt.Errorf("log.format is %q: must be text or json", f))
	}
	return errors.Join(errs...)
}

// joined lists the values that a setting may have.
func joined[T ~string](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return strings.Join(words, ", ")
}

func (d driversConfig) problems() []error {
	errs := timeProblems("drivers", d.IdleStop, d.CallTimeout)
	for _, err := range []error{d.modelTime(), d.isolationProblem()} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Settings)) {
		s := d.Settings[name]
		errs = append(errs, timeProblems("drivers.settings."+name, s.IdleStop, s.CallTimeout)...)
		if n := s.Network; !slices.Contains([]string{"", "allow", "deny"}, n) {
			errs = append(errs, fmt.Errorf("drivers.settings.%s.network is %q: must be allow or deny", name, n))
		}
		if p := driver.Provenance(s.MaxProvenance); p != "" && !slices.Contains(run.Provenances(), p) {
			errs = append(errs, fmt.Errorf("drivers.settings.%s.max_provenance is %q: must be one of %s", name, p, joined(run.Provenances())))
		}
		if s.MemoryMiB < 0 {
			errs = append(errs, fmt.Errorf("drivers.settings.%s.memory_mib is %d: must not be negative", name, s.MemoryMiB))
		}
	}
	return errs
}

func timeProblems(section string, idleStop *duration, callTimeout duration) []error {
	var errs []error
	if idleStop != nil && *idleStop < 0 {
		errs = append(errs, fmt.Errorf("%s.idle_stop is %s: must not be negative; 0s means never", section, *idleStop))
	}
	if callTimeout < 0 {
		errs = append(errs, fmt.Errorf("%s.call_timeout is %s: must not be negative", section, callTimeout))
	}
	return errs
}

// modelTime: a call of the driver llm must not be cut off before the driver
// itself gives up and says why. What is no duration the driver refuses.
func (d driversConfig) modelTime() error {
	text, _ := d.Settings["llm"].Config["timeout"].(string)
	given, err := time.ParseDuration(text)
	if bound := cmp.Or(time.Duration(d.Settings["llm"].CallTimeout), time.Duration(d.CallTimeout), driverhost.DefaultCall); err == nil && given >= bound {
		return fmt.Errorf("drivers.settings.llm.config.timeout is %s: must be shorter than its call timeout, %s; raise drivers.settings.llm.call_timeout", given, bound)
	}
	return nil
}

func (l logConfig) level() (slog.Level, error) {
	var level slog.Level
	if l.Level == "" {
		return level, nil
	}
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return level, fmt.Errorf("log.level is %q: must be debug, info, warn or error", l.Level)
	}
	return level, nil
}

// logger writes to stderr, because stdout carries MCP frames.
func (l logConfig) logger(to io.Writer) (*slog.Logger, error) {
	level, err := l.level()
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(traceHandler{slog.NewJSONHandler(to, options)}), nil
	}
	return slog.New(traceHandler{slog.NewTextHandler(to, options)}), nil
}

// traceHandler adds the trace of the context to each record. It is for handlers
// that are not grouped.
type traceHandler struct{ slog.Handler }

func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if t := driver.TraceOf(ctx); t != "" {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", t[3:35]))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}

func configCommand(at *session) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check the configuration"}
	cmd.AddCommand(&cobra.Command{
		Use: "check", Short: "Read the configuration, the driver settings and the decision tree, and report everything that is wrong", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := at.checkFiles(); err != nil {
				return err
			}
			return at.with(cmd.Context(), func(ctx context.Context, a *app) error {
				if err := errors.Join(a.store.Check(), a.checkQdrant(ctx)); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "ok\n  database %s\n", a.config.Database)
				if a.qdrant != nil {
					fmt.Fprintf(cmd.OutOrStdout(), "  protocols %s\n", a.qdrant.Location())
				}
				fmt.Fprintf(cmd.OutOrStdout(), "  drivers  %s\n", a.config.Drivers.Dir)
				if e := a.config.Embedding; e.on() {
					fmt.Fprintf(cmd.OutOrStdout(), "  embedding %s %s at %s\n", e.Provider, filepath.Base(e.Model), e.at())
				}
				return nil
			})
		},
	}, &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the configuration file, for editors", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(configSchema)
			return err
		},
	})
	return cmd
}

// checkFiles returns every problem of the configuration and of what it names:
// the decision tree and the settings of drivers. It opens no database, because
// with a wrong file it would be the wrong one.
func (s source) checkFiles() error {
	c, err := s.assemble()
	if c == nil {
		return err
	}
	problems := []error{err}
	lock, err := c.readLock()
	if err != nil {
		return errors.Join(append(problems, err)...)
	}
	src, err := c.treeSource()
	if err == nil {
		_, err = decision.Compile(src, lock.Descriptors())
	}
	return errors.Join(append(append(problems, err), c.Drivers.settingProblems(lock, placesIn(s.file))...)...)
}

// settingProblems compares the settings of drivers with what the lock says of
// them. No driver is started.
func (d driversConfig) settingProblems(lock driverhost.Lock, in places) []error {
	schemas := map[string]json.RawMessage{}
	for _, e := range lock.Drivers {
		schemas[e.Name] = e.Descriptor.ConfigSchema
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(d.Settings)) {
		at := "drivers.settings." + name
		expected, locked := schemas[name]
		if !locked {
			problems = append(problems, fmt.Errorf("%s%s: drivers.lock has no driver of this name%s", in.of("drivers", "settings", name), at, fields.Suggestion(name, slices.Collect(maps.Keys(schemas)))))
			continue
		}
		given, err := d.Settings[name].json()
		if err != nil {
			problems = append(problems, fmt.Errorf("%s.config: %w", at, err))
			continue
		}
		if len(given) == 0 || len(expected) == 0 {
			continue
		}
		for _, found := range schema.Validate(expected, given) {
			place := in.of(append([]string{"drivers", "settings", name, "config"}, strings.Split(found.Pointer, "/")[1:]...)...)
			problems = append(problems, fmt.Errorf("%s%s.config%s: %s", place, at, strings.ReplaceAll(found.Pointer, "/", "."), found.Message))
		}
	}
	return problems
}

// configSchema describes config; a test compares the two.
//
//go:embed config.schema.json
var configSchema []byte

func (s driverSettings) json() (json.RawMessage, error) {
	if len(s.Config) == 0 {
		return nil, nil
	}
	return json.Marshal(s.Config)
}
