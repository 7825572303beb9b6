package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

// variables are the variables of the environment that set one setting, by its key.
var variables = map[string]string{
	"database": "KAIROS_DB", "tree": "KAIROS_TREE", "drivers.dir": "KAIROS_DRIVERS_DIR", "tools_file": "KAIROS_TOOLS",
	"qdrant.url": "QDRANT_URL", "qdrant.collection": "QDRANT_COLLECTION", "qdrant.ca_cert": "QDRANT_CA_CERT_PATH",
	"user_input":             "KAIROS_USER_INPUT_DRIVER",
	"search.score_threshold": "SCORE_THRESHOLD", "search.similar_threshold": "SIMILAR_MEMORY_THRESHOLD",
	"log.level": "LOG_LEVEL", "log.format": "LOG_FORMAT", "metrics.instance": "INSTANCE_ID", "auth.enabled": "AUTH_ENABLED", "oidc.issuer": "KEYCLOAK_URL", "oidc.audience": "AUTH_ALLOWED_AUDIENCES", "http.trusted_proxies": "TRUSTED_PROXY_CIDRS",
	"embedding.provider": "EMBEDDING_PROVIDER", "embedding.table": "EMBEDDING_TABLE", "embedding.dimension": "EMBEDDING_DIMENSION",
}

// paths are the settings that name one file or folder, by key.
func (c *Config) paths() map[string]*string {
	return map[string]*string{
		"tree": &c.Tree, "tools_file": &c.ToolsFile, "drivers.dir": &c.Drivers.Dir, "keys_dir": &c.KeysDir,
		"handover.dir": &c.Handover.Dir, "qdrant.ca_cert": &c.Qdrant.CACert,
		"qdrant.api_key_file": &c.Qdrant.APIKeyFile, "embedding.api_key_file": &c.Embedding.APIKeyFile, "oidc.client_secret_file": &c.OIDC.ClientSecretFile, "embedding.table": &c.Embedding.Table, "admin.socket": &c.Admin.Socket, "audit.file": &c.Audit.File,
		"http.tls.cert": &c.HTTP.TLS.Cert, "http.tls.key": &c.HTTP.TLS.Key,
	}
}

// understand replaces ~ and variables in the paths of a file, and makes them
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
	c.Embedding.Provider = cmp.Or(c.Embedding.Provider, c.Embedding.named())
	return wrong
}

// overlay applies the environment, whose names the earlier server's operators know. An
// empty variable is one that is not set.
func (c *Config) overlay(lookup func(string) (string, bool)) error {
	read := envReader{lookup: lookup}
	errs := []error{c.overlayPaths(&read)}
	for key, to := range map[string]*string{
		"qdrant.url": &c.Qdrant.URL, "qdrant.collection": &c.Qdrant.Collection,
		"log.level": &c.Log.Level, "log.format": &c.Log.Format,
	} {
		*to = cmp.Or(read.of(variables[key]), *to)
	}
	errs = append(errs, c.overlayUserInput(read.clean))
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
	errs = append(errs, c.HTTP.overlay(clean), c.Metrics.overlay(clean), checkAppSpace(clean), c.Auth.overlay(clean), c.OIDC.overlay(clean, c.Auth), c.Embedding.overlay(clean))
	return errors.Join(append(errs, read.problems()...)...)
}

// overlayPaths applies the variables that name files and folders.
func (c *Config) overlayPaths(read *envReader) error {
	var errs []error
	paths := c.paths()
	for _, key := range []string{"tree", "drivers.dir", "tools_file", "qdrant.ca_cert", "embedding.table"} {
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

// userInputOff is the value of user_input that leaves a person's input to the agent.
const userInputOff = "off"

// overlayUserInput applies the two names of the earlier server: one turns it on or off, the
// other says who is asked first.
func (c *Config) overlayUserInput(lookup func(string) (string, bool)) error {
	first, _ := lookup("KAIROS_USER_INPUT_DRIVER")
	if v, ok := lookup("KAIROS_ENABLE_USER_INPUT_SERVER_DRIVER"); ok && v != "" {
		on, err := strconv.ParseBool(v)
		switch {
		case err != nil:
			return fmt.Errorf("environment KAIROS_ENABLE_USER_INPUT_SERVER_DRIVER=%q: must be true or false", v)
		case !on:
			c.UserInput = userInputOff
		case !c.asksPeople():
			c.UserInput = "elicitation"
		}
	}
	if first != "" && !slices.Contains(userInputs, first) {
		return fmt.Errorf("environment KAIROS_USER_INPUT_DRIVER=%q: must be %s", first, strings.Join(userInputs[1:], ", "))
	}
	if c.asksPeople() && first != "" {
		c.UserInput = first
	}
	return nil
}

// userInputs are the values of user_input.
var userInputs = []string{userInputOff, "elicitation", "sampling", "agent"}

// asksPeople reports whether the server obtains a person's input itself.
func (c Config) asksPeople() bool { return c.UserInput != "" && c.UserInput != userInputOff }

// envReader reads variables. One that is empty or only spaces is one that is not set.
type envReader struct {
	lookup func(string) (string, bool)
	quoted []string // variables whose values are in quotes
}

// of is the value of a variable, or "".
func (e *envReader) of(name string) string {
	v, _ := e.clean(name)
	return v
}

func (e *envReader) clean(name string) (string, bool) {
	v, _ := e.lookup(name)
	v = strings.TrimSpace(v)
	if quoted(v) {
		if !slices.Contains(e.quoted, name) {
			e.quoted = append(e.quoted, name)
		}
		return "", false
	}
	return v, v != ""
}

// problems are the variables with quotes in them, which a file for the environment has
// where its reader takes them literally.
func (e *envReader) problems() (errs []error) {
	for _, name := range e.quoted {
		errs = append(errs, fmt.Errorf("environment %s: its value is in quotes, which whoever set it took literally: write it without them", name))
	}
	return errs
}

// ours begins the variables that no other program has.
const ours = "KAIROS_"

// otherVariables are read elsewhere.
var otherVariables = []string{
	"KAIROS_ENABLE_USER_INPUT_SERVER_DRIVER", "KAIROS_CONFIG", "KAIROS_API_URL", "KAIROS_BEARER_TOKEN", "KAIROS_APP_SPACE_ID", "KAIROS_DRIVER_ATTACH", "KAIROS_LLM_API_KEY",
	"PORT", "METRICS_PORT", "QDRANT_API_KEY", "OPENAI_API_KEY", "OPENAI_EMBEDDING_MODEL", "TEI_BASE_URL", "TEI_MODEL", "TEI_API_KEY",
	"KEYCLOAK_REALM", "KEYCLOAK_CLIENT_ID",
}

// otherWords are what people call a variable that has a shorter name.
var otherWords = map[string]string{
	"KAIROS_DATABASE": "KAIROS_DB", "KAIROS_DATABASE_URL": "KAIROS_DB", "KAIROS_DB_URL": "KAIROS_DB", "KAIROS_DB_PATH": "KAIROS_DB", "KAIROS_DB_FILE": "KAIROS_DB",
	"KAIROS_URL": "KAIROS_API_URL", "KAIROS_SERVER": "KAIROS_API_URL", "KAIROS_TOKEN": "KAIROS_BEARER_TOKEN",
}

// Variables are the variables of the environment that the program reads, sorted.
func Variables() []string {
	return slices.Sorted(slices.Values(slices.AppendSeq(slices.Clone(otherVariables), maps.Values(variables))))
}

// Misspelt are the variables of an environment that begin with KAIROS_, are not read, and
// are named almost like one that is.
func Misspelt(environ []string) (errs []error) {
	known := Variables()
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		upper := strings.ToUpper(name)
		if !strings.HasPrefix(upper, ours) || slices.Contains(known, name) || strings.HasPrefix(value, "tcp://") {
			continue // Kubernetes sets KAIROS_PORT=tcp://… for a service of this name
		}
		if meant := meantBy(upper, known); meant != "" {
			errs = append(errs, fmt.Errorf("environment %s is not read: did you mean %s?", name, meant))
		}
	}
	return errs
}

// meantBy is the variable that was probably meant by one that is not known, or "".
func meantBy(name string, known []string) string {
	if meant := otherWords[name]; meant != "" {
		return meant
	}
	bare := strings.TrimPrefix(name, ours)
	if slices.Contains(known, bare) {
		return bare
	}
	var short []string // of those with the prefix, which would make all of them alike
	for _, k := range known {
		if after, ok := strings.CutPrefix(k, ours); ok {
			short = append(short, after)
		}
	}
	if meant := fields.Closest(bare, short); meant != "" {
		return ours + meant
	}
	return ""
}
