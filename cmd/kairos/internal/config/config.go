// Package config turns the configuration file, the environment and the flags into
// one validated Config. It reports every problem at once, with its line.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/kairos-mcp/kairos/core/director/budget"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
)

// Config is kairos.yaml. Every key is optional; its zero value is the default
// that docs/reference/configuration.md states.
type Config struct {
	// Database is a SQLite file, relative to the configuration file, or the address
	// of a PostgreSQL database: postgres://USER:PASSWORD@HOST/NAME.
	Database       Database             `yaml:"database"`
	DatabaseLimits databaseLimitsConfig `yaml:"database_limits"`
	// Qdrant is the server of the index of protocols.
	Qdrant qdrantConfig `yaml:"qdrant"`
	// Tree is the file of the decision tree. The default is the shipped tree.
	Tree string `yaml:"tree"`
	// Rules are what must hold; core/rules reads them from the text of the file.
	Rules     []any           `yaml:"rules"`
	Drivers   DriversConfig   `yaml:"drivers"`
	UserInput userInputConfig `yaml:"user_input"`
	Approval  approvalConfig  `yaml:"approval"`
	Sampling  samplingConfig  `yaml:"sampling"`
	Run       runConfig       `yaml:"run"`
	Attest    attestConfig    `yaml:"attest"`
	// ToolsFile lists the MCP servers whose tools KAIROS calls itself; the command
	// kairos tools writes it. Empty: tools.json beside the database.
	ToolsFile string          `yaml:"tools_file"`
	Handover  HandoverConfig  `yaml:"handover"`
	Signing   signingConfig   `yaml:"signing"`
	Search    searchConfig    `yaml:"search"`
	Embedding EmbeddingConfig `yaml:"embedding"`
	MCP       mcpConfig       `yaml:"mcp"`
	HTTP      httpConfig      `yaml:"http"`
	Replica   replicaConfig   `yaml:"replica"`
	Metrics   metricsConfig   `yaml:"metrics"`
	Admin     adminConfig     `yaml:"admin"`
	Log       logConfig       `yaml:"log"`

	text rules.Source // of the file
}

// databaseLimitsConfig bounds the room that the database takes, in bytes.
type databaseLimitsConfig struct {
	// MinFree must be free on its disk, or the server is not ready. Default
	// 64 MiB; -1: any number.
	MinFree int64 `yaml:"min_free"`
	// MaxSize of the file; what would make it larger is refused. 0 means any number.
	MaxSize int64 `yaml:"max_size"`
}

func (c databaseLimitsConfig) Limits() sqlite.Limits {
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

type userInputConfig struct {
	// ServerDriver: the server obtains a person's input itself.
	ServerDriver bool `yaml:"server_driver"`
	// Driver comes first then: elicitation, sampling or agent.
	Driver string `yaml:"driver"`
}

type approvalConfig struct {
	// How lists the ways of approving that count, as drivers name them. Default
	// drivers.DefaultHow. Rules and challenges only narrow them.
	How []string `yaml:"how"`
	TTL Duration `yaml:"ttl"`
	// RememberDeclines is how long only a person can approve what a person
	// declined, in any run; 0s: in that run only. Default 1h.
	RememberDeclines *Duration `yaml:"remember_declines"`
	// Listen is where a server over stdin and stdout serves the approval page;
	// empty: nowhere.
	Listen string `yaml:"listen"`
}

// samplingConfig bounds what language models are asked.
type samplingConfig struct {
	PerRun           budgetConfig `yaml:"per_run"`
	PerPrincipalHour budgetConfig `yaml:"per_principal_hour"`
}

// budgetConfig is a number of requests and of tokens granted. 0 means unlimited.
type budgetConfig struct {
	Requests *int `yaml:"requests"`
	Tokens   *int `yaml:"tokens"`
}

// defaults lets far more through than protocols need, and stops a loop.
func (c *samplingConfig) defaults() {
	setDefault(&c.PerRun.Requests, 200)
	setDefault(&c.PerRun.Tokens, 500_000)
	setDefault(&c.PerPrincipalHour.Requests, 5000)
	setDefault(&c.PerPrincipalHour.Tokens, 10_000_000)
}

// setDefault sets a setting that the configuration leaves out.
func setDefault[T any](setting **T, value T) {
	if *setting == nil {
		*setting = &value
	}
}

func (c samplingConfig) Budgets() budget.Limits {
	return budget.Limits{PerRun: c.PerRun.budget(), PerPrincipalHour: c.PerPrincipalHour.budget()}
}

func (b budgetConfig) budget() budget.Limit {
	return budget.Limit{Requests: *b.Requests, Tokens: *b.Tokens}
}

func (c samplingConfig) problems() []error {
	return notNegative("; 0 means unlimited", map[string]int{
		"sampling.per_run.requests": *c.PerRun.Requests, "sampling.per_run.tokens": *c.PerRun.Tokens,
		"sampling.per_principal_hour.requests": *c.PerPrincipalHour.Requests, "sampling.per_principal_hour.tokens": *c.PerPrincipalHour.Tokens,
	})
}

// notNegative reports the settings that are negative, by key, and what to know of them.
func notNegative[T int | int64 | Duration](more string, settings map[string]T) (errs []error) {
	for key, n := range settings {
		if n < 0 {
			errs = append(errs, fmt.Errorf("%s is %v: must not be negative%s", key, n, more))
		}
	}
	return errs
}

type runConfig struct {
	TTL Duration `yaml:"ttl"`
	// Keep is how long runs that have ended are kept: 0s is forever, and the default 90 days.
	Keep *Duration `yaml:"keep"`
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
	PlainWait Duration `yaml:"plain_wait"`
	// ProgressWait is the same for a call with one.
	ProgressWait Duration `yaml:"progress_wait"`
	// AskAgain is how long after a call the answer to its question may come before the
	// next call asks again.
	AskAgain Duration `yaml:"ask_again"`
	// StateKeyFile holds the key that seals requestState, and in further lines keys
	// that open it; replicas share it.
	// Empty: state.key beside the database, made when first needed.
	StateKeyFile string `yaml:"state_key_file"`
}

type adminConfig struct {
	// Socket is where the commands of this machine reach a running server; one
	// that ends in a slash is a folder with a socket for each server. Empty: a
	// private folder of the user; "off": none.
	Socket string `yaml:"socket"`
}

// Duration is a time.Duration whose errors name the line.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalYAML implements yaml.InterfaceMarshaler: as people write it, such as 10m; null for zero.
func (d Duration) MarshalYAML() (any, error) {
	if d == 0 {
		return nil, nil
	}
	text := d.String()
	for _, part := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, part) {
			text = text[:len(text)-2]
		}
	}
	return text, nil
}

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (d *Duration) UnmarshalYAML(n ast.Node) error {
	v, err := time.ParseDuration(strings.Trim(n.String(), `"'`))
	if err != nil {
		at := n.GetToken().Position
		return fmt.Errorf("[%d:%d] must be a duration such as 90s, 10m or 24h", at.Line, at.Column)
	}
	*d = Duration(v)
	return nil
}

// paths are the settings that name one file or folder, by key.
func (c *Config) paths() map[string]*string {
	return map[string]*string{
		"tree": &c.Tree, "tools_file": &c.ToolsFile, "drivers.dir": &c.Drivers.Dir, "mcp.state_key_file": &c.MCP.StateKeyFile,
		"handover.dir": &c.Handover.Dir, "signing.key_file": &c.Signing.KeyFile, "qdrant.ca_cert": &c.Qdrant.CACert,
		"qdrant.api_key_file": &c.Qdrant.APIKeyFile, "embedding.api_key_file": &c.Embedding.APIKeyFile, "admin.socket": &c.Admin.Socket,
		"http.tls.cert": &c.HTTP.TLS.Cert, "http.tls.key": &c.HTTP.TLS.Key,
	}
}

// understand puts what ~ and variables stand for into the paths of a file, and makes them
// relative to its folder. It returns what it does not understand, by key.
func (c *Config) understand(dir string) map[string]error {
	wrong := map[string]error{}
	note := func(key string, err error) {
		if err != nil {
			wrong[key] = err
		}
	}
	for key, p := range c.paths() {
		path, err := understoodPath(*p)
		note(key, err)
		if *p = path; path == AdminOff && key == "admin.socket" {
			continue
		}
		*p = absolute(dir, path)
	}
	note("database", c.Database.Understand())
	c.Database.relativeTo(dir)
	note("embedding.model", c.Embedding.relativeTo(dir))
	return wrong
}

// overlay applies the environment, whose names the earlier server's operators know. An
// empty variable is one that is not set.
func (c *Config) overlay(lookup func(string) (string, bool)) error {
	read := envReader{lookup: lookup}
	errs := []error{c.overlayPaths(&read)}
	for key, to := range map[string]*string{
		"qdrant.url": &c.Qdrant.URL, "qdrant.collection": &c.Qdrant.Collection,
		"user_input.driver": &c.UserInput.Driver, "log.level": &c.Log.Level, "log.format": &c.Log.Format,
	} {
		*to = cmp.Or(read.of(variables[key]), *to)
	}
	if name := variables["user_input.server_driver"]; read.of(name) != "" {
		on, err := strconv.ParseBool(read.of(name))
		if err != nil {
			errs = append(errs, fmt.Errorf("environment %s=%q: must be true or false", name, read.of(name)))
		}
		c.UserInput.ServerDriver = on
	}
	for key, to := range map[string]*float64{"search.score_threshold": &c.Search.ScoreThreshold, "search.similar_threshold": &c.Search.SimilarThreshold} {
		v := read.of(variables[key])
		if v == "" {
			continue
		}
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("environment %s=%q: must be a number from 0 to 1", variables[key], v))
		}
		*to = f
	}
	clean := read.clean
	errs = append(errs, c.HTTP.overlay(clean), c.Metrics.overlay(clean), checkAppSpace(clean), checkLogin(clean), c.Embedding.overlay(clean))
	return errors.Join(append(errs, read.problems()...)...)
}

// overlayPaths applies the variables that name files and folders.
func (c *Config) overlayPaths(read *envReader) error {
	var errs []error
	paths := c.paths()
	for _, key := range []string{"tree", "drivers.dir", "tools_file", "qdrant.ca_cert"} {
		v := read.of(variables[key])
		if v == "" {
			continue
		}
		path, err := understoodPath(v)
		if err != nil {
			errs = append(errs, fmt.Errorf("environment %s: %w", variables[key], err))
		}
		*paths[key] = path
	}
	if v := read.of(variables["database"]); v != "" {
		c.Database = Database(v)
		if err := c.Database.Understand(); err != nil {
			errs = append(errs, fmt.Errorf("environment %s: %w", variables["database"], err))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) defaults() error {
	if c.Database == "" {
		dir, err := dataDir()
		if err != nil {
			return err
		}
		c.Database = Database(filepath.Join(dir, "kairos.db"))
	}
	beside, err := c.Database.folder()
	if err != nil {
		return err
	}
	if c.ToolsFile == "" {
		c.ToolsFile = filepath.Join(beside, "tools.json")
	}
	if c.Drivers.Dir == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the drivers beside this program: %w", err)
		}
		c.Drivers.Dir = filepath.Join(filepath.Dir(self), "drivers")
	}
	if c.MCP.StateKeyFile == "" {
		c.MCP.StateKeyFile = filepath.Join(beside, "state.key")
	}
	if c.Signing.KeyFile == "" {
		c.Signing.KeyFile = filepath.Join(beside, "signing.key")
	}
	c.httpDefaults()
	if c.UserInput.Driver == "" {
		c.UserInput.Driver = "elicitation"
	}
	if c.Approval.How == nil {
		c.Approval.How = drivers.DefaultHow()
	}
	setDefault(&c.Approval.RememberDeclines, Duration(time.Hour))
	setDefault(&c.Run.Keep, Duration(90*24*time.Hour))
	c.Sampling.defaults()
	setDefault(&c.Drivers.Watch, true)
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

// AdminOff turns the admin socket off.
const AdminOff = "off"

// validate returns what is wrong, each with the key at its beginning.
func (c Config) validate() []error {
	errs := slices.Concat(c.DatabaseLimits.problems(), c.Drivers.problems(), c.Qdrant.problems(), c.Embedding.problems(), c.HTTP.problems(), c.Metrics.problems(), c.Sampling.problems(), c.Approval.problems(), c.replicaProblems())
	if d := c.UserInput.Driver; !slices.Contains([]string{"elicitation", "sampling", "agent"}, d) {
		errs = append(errs, fmt.Errorf("user_input.driver is %q: must be elicitation, sampling or agent", d))
	}
	for key, v := range map[string]float64{
		"search.score_threshold": c.Search.ScoreThreshold, "search.similar_threshold": c.Search.SimilarThreshold,
	} {
		if !(v >= 0 && v <= 1) { // what is not a number is neither
			errs = append(errs, fmt.Errorf("%s is %v: must be from 0 to 1", key, v))
		}
	}
	errs = append(errs, notNegative("", map[string]Duration{
		"approval.ttl": c.Approval.TTL, "approval.remember_declines": *c.Approval.RememberDeclines, "run.ttl": c.Run.TTL, "run.keep": *c.Run.Keep, "mcp.plain_wait": c.MCP.PlainWait, "mcp.progress_wait": c.MCP.ProgressWait,
		"mcp.ask_again": c.MCP.AskAgain,
	})...)
	if on := c.HTTP.Operations; on != nil && *on && c.Admin.Socket == AdminOff {
		errs = append(errs, errors.New("http.operations is true, but admin.socket is off: the token that the calls of operators need lies beside the socket; set admin.socket, or remove http.operations"))
	}
	if _, err := c.Log.level(); err != nil {
		errs = append(errs, err)
	}
	if f := c.Log.Format; f != "" && f != "text" && f != "json" {
		errs = append(errs, fmt.Errorf("log.format is %q: must be text or json", f))
	}
	return errs
}

func timeProblems(section string, idleStop *Duration, callTimeout Duration) []error {
	errs := notNegative("", map[string]Duration{section + ".call_timeout": callTimeout})
	if idleStop != nil {
		errs = append(errs, notNegative("; 0s means never", map[string]Duration{section + ".idle_stop": *idleStop})...)
	}
	return errs
}

// modelTime: a call of the driver llm must not be cut off before the driver
// itself gives up and says why. The driver refuses what is not a duration.
func (d DriversConfig) modelTime() error {
	text, _ := d.Settings["llm"].Config["timeout"].(string)
	given, err := time.ParseDuration(text)
	if bound := cmp.Or(time.Duration(d.Settings["llm"].CallTimeout), time.Duration(d.CallTimeout), driverhost.DefaultCall); err == nil && given >= bound {
		return fmt.Errorf("drivers.settings.llm.config.timeout is %s: must be shorter than its call timeout, %s; raise drivers.settings.llm.call_timeout", given, bound)
	}
	return nil
}

// HandoverConfig says where kairos-session-handover.txt is kept; empty: nowhere.
type HandoverConfig struct {
	Dir string `yaml:"dir"`
}
