package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/decision"
)

// Source says where a configuration comes from.
type Source struct {
	File, Database string
	// OverHTTP puts flags over the http section; nil without flags.
	OverHTTP func(*Config)
	// LogLevel is the level where none is configured. The default is info.
	LogLevel string
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
	}
	if s.OverHTTP != nil {
		s.OverHTTP(&c)
	}
	tell(FromFlag, c)
	if c.Log.Level == "" {
		c.Log.Level = s.LogLevel
	}
	if err := c.defaults(); err != nil {
		return nil, errors.Join(append(problems, err)...)
	}
	tell(FromDefault, c)
	return &c, errors.Join(append(problems, c.validate())...)
}

// read reads the file into c. With readable false, c is unchanged.
func (s Source) read(c *Config) (problems []error, readable bool) {
	if s.File == "" {
		return nil, true
	}
	b, err := files.Read(s.File)
	if err != nil {
		return []error{fmt.Errorf("read the configuration: %w", err)}, false
	}
	problems, readable = c.decode(s.File, b)
	c.relativeTo(filepath.Dir(s.File))
	return problems, readable
}

// CheckFiles returns every problem of the configuration and of what it names:
// the decision tree and the settings of drivers. It opens no database, because
// with a wrong file it would be the wrong one.
func (s Source) CheckFiles() error {
	c, err := s.assemble()
	if c == nil {
		return err
	}
	problems := []error{err}
	lock, err := c.ReadLock()
	if err != nil {
		return errors.Join(append(problems, err)...)
	}
	src, err := c.TreeSource()
	if err == nil {
		_, err = decision.Compile(src, lock.Descriptors())
	}
	wrong, unused := c.Drivers.SettingProblems(lock.Descriptors(), s.File)
	return errors.Join(append(problems, slices.Concat([]error{err}, wrong, unused)...)...)
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
	if b, err := files.Read(s.File); err == nil && yaml.Unmarshal(b, &part) == nil {
		c.Drivers.Dir, c.Admin.Socket = part.Drivers.Dir, part.Admin.Socket
	}
	c.relativeTo(filepath.Dir(s.File))
	_ = c.overlay(os.LookupEnv) // what is wrong is said already
	_ = c.defaults()
	return c
}
