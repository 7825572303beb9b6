package config

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
)

func TestAModelIsAFolderIfItIsWrittenAsAPath(t *testing.T) {
	absolute := filepath.Join(t.TempDir(), "absolute")
	embedtest.WriteModel(t, absolute, embedtest.Meanings)
	for name, tc := range map[string]struct{ yaml, want string }{
		"a name of a folder": {"embedding: {model: potion}", "potion"},
		"a path":             {"embedding: {model: ./models/potion}", "models/potion"},
		"an absolute path":   {"embedding: {model: '" + absolute + "'}", absolute},
	} {
		at := configured(t, tc.yaml)
		want := tc.want
		if !filepath.IsAbs(want) {
			want = filepath.Join(filepath.Dir(at.File), want)
			embedtest.WriteModel(t, want, embedtest.Meanings)
		}
		c, err := at.Load()
		if err != nil {
			t.Errorf("%s: load = %v", name, err)
			continue
		}
		if c.Embedding.Provider != EmbedStatic || c.Embedding.Model != want {
			t.Errorf("%s: provider %s and model %s, want static and %s", name, c.Embedding.Provider, c.Embedding.Model, want)
		}
	}
}

func TestTheSectionSaysWhereVectorsComeFrom(t *testing.T) {
	for name, tc := range map[string]struct{ yaml, provider, url, model string }{
		"a name":             {"{model: text-embedding-3-large}", "openai", openAIURL, "text-embedding-3-large"},
		"an endpoint":        {"{url: 'http://127.0.0.1:11434', model: bge-m3}", "openai", "http://127.0.0.1:11434", "bge-m3"},
		"a TEI server":       {"{url: 'http://tei:80'}", "tei", "http://tei:80", "default"},
		"nothing":            {"{}", "none", "", ""},
		"a key and no model": {"{api_key_file: key}", "none", "", ""},
	} {
		c, err := configured(t, "embedding: "+tc.yaml+"\n").Load()
		if e := c.Embedding; err != nil || e.Provider != tc.provider || e.URL != tc.url || e.Model != tc.model {
			t.Errorf("%s: %+v (%v), want %s, %s and %s", name, e, err, tc.provider, tc.url, tc.model)
		}
	}
}

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
	openAI := EmbeddingConfig{Provider: "openai", URL: openAIURL, Model: "text-embedding-3-large", APIKeyEnv: "OPENAI_API_KEY"}
	ollama := EmbeddingConfig{Provider: "openai", URL: "http://127.0.0.1:11434", Model: "bge-m3"}
	tei := EmbeddingConfig{Provider: "tei", URL: "http://tei:80", Model: "default"}
	for name, tc := range map[string]struct {
		file, want EmbeddingConfig
		env        map[string]string
	}{
		"nothing":                {EmbeddingConfig{}, EmbeddingConfig{Provider: "none"}, nil},
		"a stray key":            {EmbeddingConfig{}, EmbeddingConfig{Provider: "none"}, map[string]string{"OPENAI_API_KEY": "k"}},
		"a model of OpenAI":      {EmbeddingConfig{}, openAI, map[string]string{"OPENAI_API_KEY": "k", "OPENAI_EMBEDDING_MODEL": openAI.Model}},
		"the URL of a TEI":       {EmbeddingConfig{}, tei, map[string]string{"TEI_BASE_URL": tei.URL}},
		"auto without anything":  {EmbeddingConfig{}, EmbeddingConfig{Provider: "none"}, map[string]string{"EMBEDDING_PROVIDER": "auto"}},
		"auto with a TEI":        {EmbeddingConfig{}, tei, map[string]string{"EMBEDDING_PROVIDER": "AUTO", "TEI_BASE_URL": tei.URL}},
		"none beats a model":     {EmbeddingConfig{}, EmbeddingConfig{Provider: "none"}, map[string]string{"EMBEDDING_PROVIDER": "none", "OPENAI_EMBEDDING_MODEL": "m"}},
		"no key for other hosts": {ollama, ollama, map[string]string{"OPENAI_API_KEY": "k"}},
		"auto with a key": {
			EmbeddingConfig{Provider: "auto"},
			EmbeddingConfig{Provider: "openai", URL: openAIURL, Model: defaultOpenAIModel, APIKeyEnv: "OPENAI_API_KEY"},
			map[string]string{"OPENAI_API_KEY": "k"},
		},
		"a TEI with all": {
			EmbeddingConfig{},
			EmbeddingConfig{Provider: "tei", URL: tei.URL, Model: "bge", APIKeyEnv: "TEI_API_KEY", Dimension: 1024},
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

func TestTheKeyComesFromEnvironmentOrFile(t *testing.T) {
	t.Setenv("MY_KEY", "one\n")
	file := filepath.Join(t.TempDir(), "key")
	writeFile(t, file, []byte("two\n"))
	for want, c := range map[string]EmbeddingConfig{"one": {APIKeyEnv: "MY_KEY"}, "two": {APIKeyFile: file}, "": {}} {
		if key, err := c.Key(); err != nil || string(key) != want {
			t.Errorf("key of %+v = %q, %v, want %q", c, string(key), err, want)
		}
	}
	for _, c := range []EmbeddingConfig{{APIKeyEnv: "NOT_SET_ANYWHERE"}, {APIKeyFile: file + "x"}} {
		if _, err := c.Key(); err == nil {
			t.Errorf("key of %+v succeeds", c)
		}
	}
}
