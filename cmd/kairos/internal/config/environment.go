package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

// variables are the variables of the environment that stand for one setting, by its key.
var variables = map[string]string{
	"database": "KAIROS_DB", "tree": "KAIROS_TREE", "drivers.dir": "KAIROS_DRIVERS_DIR", "tools_file": "KAIROS_TOOLS",
	"qdrant.url": "QDRANT_URL", "qdrant.collection": "QDRANT_COLLECTION", "qdrant.ca_cert": "QDRANT_CA_CERT_PATH",
	"user_input":             "KAIROS_USER_INPUT_DRIVER",
	"search.score_threshold": "SCORE_THRESHOLD", "search.similar_threshold": "SIMILAR_MEMORY_THRESHOLD",
	"log.level": "LOG_LEVEL", "log.format": "LOG_FORMAT", "metrics.instance": "INSTANCE_ID", "http.trusted_proxies": "TRUSTED_PROXY_CIDRS",
	"embedding.provider": "EMBEDDING_PROVIDER", "embedding.dimension": "EMBEDDING_DIMENSION",
}

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
}

// otherWords are what people call a variable that has a shorter name.
var otherWords = map[string]string{
	"KAIROS_DATABASE": "KAIROS_DB", "KAIROS_DATABASE_URL": "KAIROS_DB", "KAIROS_DB_URL": "KAIROS_DB", "KAIROS_DB_PATH": "KAIROS_DB", "KAIROS_DB_FILE": "KAIROS_DB",
	"KAIROS_URL": "KAIROS_API_URL", "KAIROS_SERVER": "KAIROS_API_URL", "KAIROS_TOKEN": "KAIROS_BEARER_TOKEN",
}

// Misspelt are the variables of an environment that begin with KAIROS_, are not read, and
// are named almost like one that is.
func Misspelt(environ []string) (errs []error) {
	known := slices.AppendSeq(slices.Clone(otherVariables), maps.Values(variables))
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
