package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/oidc"
	"github.com/kairos-mcp/kairos/core/rules"
)

// Source says where a configuration comes from.
type Source struct {
	File, Database string
	// OverHTTP puts flags over the http section; nil without flags.
	OverHTTP func(*Config)
	// LogLevel is the level where none is configured. The default is info.
	LogLevel string
	// Workspace is the folder on a copy of which commands run, instead of the configured one.
	Workspace string
}

// Load reads the file, then the environment, then the flags. Its error lists
// every problem.
func (s Source) Load() (Config, error) {
	c, err := s.assemble()
	if err != nil || c == nil {
		return Config{}, err
	}
	return *c, nil
}

// assemble is load that returns what it could read although there are problems;
// nil if there is nothing to go by.
func (s Source) assemble() (*Config, error) { return s.assembleIn(func(string, Config) {}) }

// assembleIn is assemble that tells what the configuration is after each source.
func (s Source) assembleIn(tell func(from string, c Config)) (*Config, error) {
	var c Config
	problems, readable := s.read(&c)
	if !readable {
		return nil, errors.Join(problems...)
	}
	tell(FromFile, c)
	problems = append(problems, c.overlay(os.LookupEnv))
	tell(FromEnvironment, c)
	if s.Database != "" {
		c.Database = Database(s.Database)
		if err := c.Database.Understand(); err != nil {
			problems = append(problems, fmt.Errorf("--db: %w", err))
		}
	}
	if s.OverHTTP != nil {
		s.OverHTTP(&c)
	}
	if s.Workspace != "" {
		c.Drivers.workIn(s.Workspace)
	}
	tell(FromFlag, c)
	if c.Log.Level == "" {
		c.Log.Level = s.LogLevel
	}
	if err := c.defaults(); err != nil {
		return nil, errors.Join(append(problems, err)...)
	}
	tell(FromDefault, c)
	return &c, errors.Join(append(problems, located(s.File, c.validate())...)...)
}

// located are problems of the configuration as a whole, each behind the place of the
// setting that it begins with: the environment, or a line of the file.
func located(file string, problems []error) []error {
	if len(problems) == 0 {
		return nil
	}
	in := placesIn(file)
	read := envReader{lookup: os.LookupEnv}
	out := make([]error, len(problems))
	for i, err := range problems {
		key, _, _ := strings.Cut(err.Error(), " ")
		key = strings.TrimSuffix(key, ":")
		if name := variables[key]; name != "" && read.of(name) != "" {
			out[i] = fmt.Errorf("environment %s: %w", name, err)
			continue
		}
		out[i] = fmt.Errorf("%s%w", in.of(strings.Split(key, ".")...), err)
	}
	return out
}

// read reads the file into c. With readable false, c is unchanged.
func (s Source) read(c *Config) (problems []error, readable bool) {
	if s.File == "" {
		return nil, true
	}
	b, err := readYAML(s.File)
	if err != nil {
		return []error{fmt.Errorf("read the configuration: %w", err)}, false
	}
	problems, readable = c.decode(s.File, b)
	c.text = rules.Source{Name: s.File, YAML: b}
	in := placesIn(s.File)
	for key, err := range c.understand(filepath.Dir(s.File)) {
		problems = append(problems, fmt.Errorf("%s%s: %w", in.of(strings.Split(key, ".")...), key, err))
	}
	return problems, readable
}

// CheckFiles returns every problem of the configuration and of what it names:
// the decision tree, the rules and the settings of drivers. It opens no database, because
// with a wrong file it would be the wrong one.
func (s Source) CheckFiles() error {
	c, err := s.assemble()
	if c == nil {
		return err
	}
	problems := append([]error{err}, located(s.File, c.startProblems())...)
	problems = append(problems, Misspelt(os.Environ())...)
	lock, err := c.ReadLock()
	if err != nil {
		return errors.Join(append(problems, err)...)
	}
	_, err = c.TreeFor(lock)
	_, wrongRules := rules.Compile(c.RulesSource(), lock.Descriptors())
	wrong, unused := c.Drivers.SettingProblems(lock.Descriptors(), s.File)
	return errors.Join(append(problems, slices.Concat([]error{err, wrongRules}, wrong, unused)...)...)
}

// startProblems are what a server that serves HTTP would refuse at its start.
func (c Config) startProblems() (errs []error) {
	found := []error{c.CheckListen(), c.HTTP.checkTLS()}
	if c.Qdrant.On() {
		_, err := c.Qdrant.Options()
		found = append(found, err)
	}
	if c.Embedding.Endpoint() {
		_, err := c.Embedding.Key()
		found = append(found, err)
	}
	return slices.DeleteFunc(found, func(err error) bool { return err == nil })
}

// Salvage is as much of a configuration that is wrong as finds servers.
func (s Source) Salvage() Config {
	var part struct {
		Drivers struct {
			Dir string `yaml:"dir"`
		} `yaml:"drivers"`
		Admin struct {
			Socket string `yaml:"socket"`
		} `yaml:"admin"`
	}
	var c Config
	if b, err := readYAML(s.File); err == nil && yaml.Unmarshal(b, &part) == nil {
		c.Drivers.Dir, c.Admin.Socket = part.Drivers.Dir, part.Admin.Socket
	}
	_ = c.understand(filepath.Dir(s.File))
	_ = c.overlay(os.LookupEnv) // what is wrong is said already
	_ = c.defaults()
	return c
}

// TreeSource reads the decision tree.
func (c Config) TreeSource() (decision.Source, error) {
	if c.Tree == "" {
		return decision.Default(), nil
	}
	b, err := files.Read(c.Tree)
	if err != nil {
		return decision.Source{}, fmt.Errorf("read the decision tree: %w", err)
	}
	return decision.Source{Name: c.Tree, YAML: b}, nil
}

// CompileTree reads and compiles the decision tree against the locked drivers.
func (c Config) CompileTree() (*decision.Tree, error) {
	lock, err := c.ReadLock()
	if err != nil {
		return nil, err
	}
	return c.TreeFor(lock)
}

// TreeFor compiles the decision tree for the drivers of a lock, and refuses what no server would take
// up: ways of approving too that none of them has.
func (c Config) TreeFor(lock driverhost.Lock) (*decision.Tree, error) {
	src, err := c.TreeSource()
	if err != nil {
		return nil, err
	}
	tree, err := decision.Compile(src, lock.Descriptors())
	if err != nil {
		return nil, err
	}
	return tree, drivers.CheckHow(c.Approval.How, tree.Ways())
}

// RulesSource is the text with the rules.
func (c Config) RulesSource() rules.Source {
	if len(c.Rules) == 0 {
		return rules.Source{}
	}
	src := c.text
	src.Realm = RealmOf(c)
	return src
}

// RealmOf is that of groups which are written without one. Empty: nobody can log in.
func RealmOf(c Config) string {
	if !c.Auth.Enabled {
		return ""
	}
	if realm, err := oidc.Realm(c.OIDC.Issuer); c.OIDC.On() && err == nil { // else the configuration is refused
		return realm
	}
	return LocalRealm
}

// LocalRealm is that of people whom the operator of this server names, and no identity
// provider knows.
const LocalRealm = "local"

// CompileRules compiles the rules against the locked drivers.
func (c Config) CompileRules() (*rules.Set, error) {
	lock, err := c.ReadLock()
	if err != nil {
		return nil, err
	}
	return rules.Compile(c.RulesSource(), lock.Descriptors())
}

// Facts are what conditions of the tree see as `config`.
func (c Config) Facts() decision.ConfigFacts {
	return decision.ConfigFacts{
		UserInput: userInputFacts(c),
	}
}

func userInputFacts(c Config) decision.UserInputFacts {
	if !c.asksPeople() {
		return decision.UserInputFacts{Driver: "elicitation"}
	}
	return decision.UserInputFacts{Enabled: true, Driver: c.UserInput}
}
