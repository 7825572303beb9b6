package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
)

// environment makes a lookup of a map, and sets it for what reads os.Getenv.
func environment(t *testing.T, env map[string]string) func(string) (string, bool) {
	t.Helper()
	for name, v := range env {
		t.Setenv(name, v)
	}
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

func TestEmbeddingsAreOffUnlessAskedFor(t *testing.T) {
	openAI := embeddingConfig{Provider: "openai", URL: openAIURL, Model: "text-embedding-3-large", APIKeyEnv: "OPENAI_API_KEY"}
	ollama := embeddingConfig{Provider: "openai", URL: "http://127.0.0.1:11434", Model: "bge-m3"}
	tei := embeddingConfig{Provider: "tei", URL: "http://tei:80", Model: "default"}
	for name, tc := range map[string]struct {
		file, want embeddingConfig
		env        map[string]string
	}{
		"nothing":                {embeddingConfig{}, embeddingConfig{Provider: "none"}, nil},
		"a stray key":            {embeddingConfig{}, embeddingConfig{Provider: "none"}, map[string]string{"OPENAI_API_KEY": "k"}},
		"a model of OpenAI":      {embeddingConfig{}, openAI, map[string]string{"OPENAI_API_KEY": "k", "OPENAI_EMBEDDING_MODEL": openAI.Model}},
		"the URL of a TEI":       {embeddingConfig{}, tei, map[string]string{"TEI_BASE_URL": tei.URL}},
		"auto without anything":  {embeddingConfig{}, embeddingConfig{Provider: "none"}, map[string]string{"EMBEDDING_PROVIDER": "auto"}},
		"auto with a TEI":        {embeddingConfig{}, tei, map[string]string{"EMBEDDING_PROVIDER": "AUTO", "TEI_BASE_URL": tei.URL}},
		"none beats a model":     {embeddingConfig{}, embeddingConfig{Provider: "none"}, map[string]string{"EMBEDDING_PROVIDER": "none", "OPENAI_EMBEDDING_MODEL": "m"}},
		"no key for other hosts": {ollama, ollama, map[string]string{"OPENAI_API_KEY": "k"}},
		"auto with a key": {
			embeddingConfig{Provider: "auto"},
			embeddingConfig{Provider: "openai", URL: openAIURL, Model: defaultOpenAIModel, APIKeyEnv: "OPENAI_API_KEY"},
			map[string]string{"OPENAI_API_KEY": "k"},
		},
		"a TEI with all": {
			embeddingConfig{},
			embeddingConfig{Provider: "tei", URL: tei.URL, Model: "bge", APIKeyEnv: "TEI_API_KEY", Dimension: 1024},
			map[string]string{"TEI_BASE_URL": tei.URL, "TEI_MODEL": "bge", "TEI_API_KEY": "k", "EMBEDDING_DIMENSION": "1024"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.file
			if err := got.overlay(environment(t, tc.env)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("overlay (-want +got):\n%s", diff)
			}
			if problems := got.problems(); problems != nil {
				t.Errorf("problems: %v", problems)
			}
		})
	}
}

func TestWhatIsWrongInTheEmbeddingSectionIsNamed(t *testing.T) {
	const secret = "sk-4711"
	for name, tc := range map[string]struct{ yaml, want string }{
		"provider":          {"embedding: {provider: magic}", "embedding.provider"},
		"no provider":       {"embedding: {url: 'http://127.0.0.1:1'}", "embedding.provider is not"},
		"no url":            {"embedding: {provider: tei}", "http://"},
		"no model":          {"embedding: {provider: openai, url: 'http://127.0.0.1:1'}", "model is missing"},
		"a key in the url":  {"embedding: {provider: openai, url: 'https://me:" + secret + "@host', model: m}", "api_key_env"},
		"a key as the name": {"embedding: {provider: openai, api_key_env: " + secret + "}", "names the variable"},
		"two keys":          {"embedding: {provider: openai, api_key_env: K, api_key_file: f}", "keep one"},
		"dimension":         {"embedding: {provider: openai, model: m, dimension: -1}", "dimension is -1"},
		"timeout":           {"embedding: {timeout: -1s}", "embedding.timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configured(t, tc.yaml).load()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("load: %v, want an error that says %s", err, tc.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
}

func TestTheKeyComesFromEnvironmentOrFile(t *testing.T) {
	t.Setenv("MY_KEY", "one\n")
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]embeddingConfig{"one": {APIKeyEnv: "MY_KEY"}, "two": {APIKeyFile: file}, "": {}} {
		if key, err := c.key(); err != nil || string(key) != want {
			t.Errorf("key of %+v = %q, %v, want %q", c, string(key), err, want)
		}
	}
	for _, c := range []embeddingConfig{{APIKeyEnv: "NOT_SET_ANYWHERE"}, {APIKeyFile: file + "x"}} {
		if _, err := c.key(); err == nil {
			t.Errorf("key of %+v succeeds", c)
		}
	}
}

func TestAKeyInTheClearIsWarnedOf(t *testing.T) {
	t.Setenv("MY_KEY", "sk-4711")
	for url, warns := range map[string]bool{"http://127.0.0.1:1": false, "https://example.org": false, "http://192.0.2.1": true} {
		var log strings.Builder
		c := embeddingConfig{Provider: "openai", URL: url, Model: "m", APIKeyEnv: "MY_KEY"}
		if _, err := c.embedder(nil, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "in the clear"); got != warns || strings.Contains(log.String(), "sk-4711") {
			t.Errorf("the log for %s is %q, want a warning = %v and no key", url, log.String(), warns)
		}
	}
}

// The first call of a server begins the filling; another name of a model is
// another model, whose vectors are all made anew.
func TestAServerEmbedsWhatIsMissing(t *testing.T) {
	t.Parallel()
	endpoint := embedtest.Start(embedtest.Options{})
	defer endpoint.Close()
	endpoint.Behave(embedtest.Behaviour{Fault: embedtest.Down})
	s := newServed(t)
	s.lock()
	use := func(model string) {
		s.configure("embedding: {provider: openai, url: '" + endpoint.URL() + "', model: " + model + ", budget: 300ms}\n")
	}
	use("first")
	if out, err := s.program("mint", "../../examples/shell.md").CombinedOutput(); err != nil || !strings.Contains(string(out), "cannot be compared by meaning yet") {
		t.Fatalf("mint without the endpoint = %s, %v, want what is missing", out, err)
	}
	if out, err := s.program("doctor").CombinedOutput(); err == nil || !strings.Contains(string(out), endpoint.URL()) {
		t.Errorf("doctor without the endpoint = %s, %v, want its address", out, err)
	}
	endpoint.Behave(embedtest.Behaviour{})
	for _, model := range []string{"first", "second"} {
		t.Run(model, func(t *testing.T) {
			s.t = t
			use(model)
			if out := s.doctor("passages have no vector yet"); !strings.Contains(out, "openai/"+model+"/") {
				t.Errorf("doctor = %s, want the model %s", out, model)
			}
			s.start()
			s.search("disk")
			s.doctor("every passage has a vector")
		})
	}
}

// doctor asks until the answer says what it is to say.
func (s *served) doctor(want string) string {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		out, err := s.program("doctor").CombinedOutput()
		if strings.Contains(string(out), want) {
			return string(out)
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("doctor = %s, %v, want %q", out, err, want)
		}
	}
}
