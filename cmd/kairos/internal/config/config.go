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
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/kairos-mcp/kairos/core/director/budget"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/rules"
)

// Config is kairos.yaml. Every key is optional; its zero value is the default
// that docs/reference/configuration.md states.
type Config struct {
	// Database is a SQLite file, relative to the configuration file, or the address
	// of a PostgreSQL database: postgres://USER:PASSWORD@HOST/NAME.
	Database Database `yaml:"database"`
	// KeysDir holds signing.key, which signs statements about runs, and state.key, which seals
	// requestState and has in further lines keys that open it; replicas share both. Empty:
	// beside the database, where they are made when first needed.
	KeysDir string `yaml:"keys_dir"`
	// Qdrant is the server of the index of protocols.
	Qdrant qdrantConfig `yaml:"qdrant"`
	// Tree is the file of the decision tree. The default is the shipped tree.
	Tree string `yaml:"tree"`
	// Rules are what must hold; core/rules reads them from the text of the file.
	Rules   []any         `yaml:"rules"`
	Drivers DriversConfig `yaml:"drivers"`
	// UserInput is who is asked first where the server obtains a person's input itself:
	// elicitation, sampling or agent. Empty or "off": it takes what the agent submits.
	UserInput string         `yaml:"user_input"`
	Approval  approvalConfig `yaml:"approval"`
	Sampling  samplingConfig `yaml:"sampling"`
	Run       runConfig      `yaml:"run"`
	Attest    attestConfig   `yaml:"attest"`
	// ToolsFile lists the MCP servers whose tools KAIROS calls itself; the command
	// kairos tools writes it. It is tools.json beside the database, unless KAIROS_TOOLS names
	// another file.
	ToolsFile string          `yaml:"-"`
	Handover  HandoverConfig  `yaml:"handover"`
	Search    searchConfig    `yaml:"-"`
	Embedding EmbeddingConfig `yaml:"embedding"`
	MCP       mcpConfig       `yaml:"mcp"`
	HTTP      httpConfig      `yaml:"http"`
	Auth      authConfig      `yaml:"auth"`
	OIDC      oidcConfig      `yaml:"oidc"`
	// Spaces says who may run and who may write in the spaces with these names.
	Spaces map[string]spaceConfig `yaml:"spaces"`
	// Operators are principals and groups that may do what is the operator's.
	Operators []string      `yaml:"operators"`
	Replica   replicaConfig `yaml:"replica"`
	Metrics   metricsConfig `yaml:"metrics"`
	Admin     adminConfig   `yaml:"admin"`
	Log       logConfig     `yaml:"log"`
	Audit     AuditConfig   `yaml:"audit"`

	text rules.Source // of the file
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
	// TokensPerHour is how many tokens for answers one principal is granted in any hour,
	// and in one run a twentieth of it. 0 means unlimited. Default 10 million, which is far
	// more than protocols need, and stops a loop.
	TokensPerHour *int `yaml:"tokens_per_hour"`
}

// Requests stop a loop of small ones.
const (
	defaultTokensPerHour = 10_000_000
	runsPerHour          = 20 // whose budgets make up the budget of an hour
	requestsPerRun       = 200
	requestsPerHour      = 5000
)

// setDefault sets a setting that the configuration leaves out.
func setDefault[T any](setting **T, value T) {
	if *setting == nil {
		*setting = &value
	}
}

// Budgets are the limits of a run and of a principal's hour.
func (c samplingConfig) Budgets() budget.Limits {
	tokens := *c.TokensPerHour
	if tokens == 0 {
		return budget.Limits{}
	}
	return budget.Limits{
		PerRun:           budget.Limit{Requests: requestsPerRun, Tokens: max(1, tokens/runsPerHour)},
		PerPrincipalHour: budget.Limit{Requests: requestsPerHour, Tokens: tokens},
	}
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

// searchConfig is what the environment of the earlier server sets.
type searchConfig struct {
	ScoreThreshold   float64 // SCORE_THRESHOLD; 0: that of core/library
	SimilarThreshold float64 // SIMILAR_MEMORY_THRESHOLD
}

type mcpConfig struct {
	// Wait is how long a call waits for a person; one with a progress token waits longer. Default 50s.
	Wait Duration `yaml:"wait"`
}

// Times of an MCP server that follow from the wait.
const (
	defaultWait  = 50 * time.Second
	progressWait = 12 // times the wait, for calls with a progress token
)

// PlainWait is how long a call without a progress token waits for a person.
func (c mcpConfig) PlainWait() time.Duration { return cmp.Or(time.Duration(c.Wait), defaultWait) }

// ProgressWait is the same for a call with one.
func (c mcpConfig) ProgressWait() time.Duration { return progressWait * c.PlainWait() }

// AskAgain is how long after a call the answer to its question may come before the next
// call asks again.
func (c mcpConfig) AskAgain() time.Duration { return c.PlainWait() + c.PlainWait()/5 }

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
	c.KeysDir = cmp.Or(c.KeysDir, beside)
	c.httpDefaults()
	c.Auth.Enabled = c.Auth.Asked != nil && *c.Auth.Asked || c.OIDC.On()
	c.Audit.defaults(beside, c.Auth.Enabled)
	c.UserInput = cmp.Or(c.UserInput, userInputOff)
	if c.Approval.How == nil {
		c.Approval.How = drivers.DefaultHow()
	}
	setDefault(&c.Approval.RememberDeclines, Duration(time.Hour))
	setDefault(&c.Run.Keep, Duration(90*24*time.Hour))
	setDefault(&c.Sampling.TokensPerHour, defaultTokensPerHour)
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
	errs := slices.Concat(c.Drivers.problems(), c.Qdrant.problems(), c.Embedding.problems(), c.HTTP.problems(), c.Metrics.problems(), c.Approval.problems(RealmOf(c)), c.Audit.problems(), c.replicaProblems(), c.identityProblems(), membersProblems(c))
	if !slices.Contains(userInputs, c.UserInput) {
		errs = append(errs, fmt.Errorf("user_input is %q: must be %s", c.UserInput, strings.Join(userInputs, ", ")))
	}
	errs = append(errs, notNegative("; 0 means unlimited", map[string]int{"sampling.tokens_per_hour": *c.Sampling.TokensPerHour})...)
	for key, v := range map[string]float64{
		"environment SCORE_THRESHOLD": c.Search.ScoreThreshold, "environment SIMILAR_MEMORY_THRESHOLD": c.Search.SimilarThreshold,
	} {
		if !(v >= 0 && v <= 1) { // what is not a number is neither
			errs = append(errs, fmt.Errorf("%s is %v: must be from 0 to 1", key, v))
		}
	}
	errs = append(errs, notNegative("", map[string]Duration{
		"approval.ttl": c.Approval.TTL, "approval.remember_declines": *c.Approval.RememberDeclines, "run.ttl": c.Run.TTL, "run.keep": *c.Run.Keep, "mcp.wait": c.MCP.Wait,
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

// modelTime: a call of the driver llm must not be cut off before the driver
// itself gives up and says why. The driver refuses what is not a duration.
func (d DriversConfig) modelTime() error {
	text, _ := d.Settings["llm"].Config["timeout"].(string)
	given, err := time.ParseDuration(text)
	if bound := cmp.Or(time.Duration(d.Settings["llm"].CallTimeout), driverhost.DefaultCall); err == nil && given >= bound {
		return fmt.Errorf("drivers.settings.llm.config.timeout is %s: must be shorter than its call timeout, %s; raise drivers.settings.llm.call_timeout", given, bound)
	}
	return nil
}

// HandoverConfig says where kairos-session-handover.txt is kept; empty: nowhere.
type HandoverConfig struct {
	Dir string `yaml:"dir"`
}
