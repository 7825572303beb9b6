package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/meaning"
)

func TestATableIsAFileThatIsRead(t *testing.T) {
	made, err := meaning.Make(strings.NewReader(`{"dimensions":2,"words":["a","b"],"vectors":{"a":[1,0],"b":[0,1]}}`), meaning.PlainWord)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		content []byte
		want    string // in the error
	}{
		"a table":      {made, ""},
		"a part of it": {made[:len(made)-1], "or cut off; `kairos db embedding table` makes one"},
		"word vectors": {[]byte(`{"dimensions":2}`), "not a table of word vectors"},
		"empty":        {nil, "not a table of word vectors"},
		"a large file": {make([]byte, maxTable+1), "is larger than 64 MiB"},
	} {
		at := configured(t, "embedding: {table: words.table}\n")
		writeFile(t, filepath.Join(filepath.Dir(at.File), "words.table"), tc.content)
		c, err := at.Load()
		if tc.want != "" {
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "kairos.yaml:1:13: embedding.table: ") {
				t.Errorf("%s: load = %v, want %s", name, err, tc.want)
			}
			continue
		}
		if err != nil || !c.Embedding.UsesTable() {
			t.Fatalf("%s: %+v, %v", name, c.Embedding, err)
		}
		if table, err := c.Embedding.ReadTable(); err != nil || table.Len() != 2 {
			t.Errorf("%s: %v, %v", name, table, err)
		}
		t.Setenv("EMBEDDING_TABLE", at.File)
		if _, err := (Source{}).Load(); err == nil || !strings.Contains(err.Error(), "environment EMBEDDING_TABLE: embedding.table: ") {
			t.Errorf("load of a table that the environment names = %v", err)
		}
		t.Setenv("EMBEDDING_TABLE", "")
	}
}

func TestTheSectionSaysWhereVectorsComeFrom(t *testing.T) {
	for name, tc := range map[string]struct{ yaml, provider, url, model string }{
		"a name":             {"{model: text-embedding-3-large}", "openai", openAIURL, "text-embedding-3-large"},
		"an endpoint":        {"{url: 'http://127.0.0.1:11434', model: bge-m3}", "openai", "http://127.0.0.1:11434", "bge-m3"},
		"a TEI server":       {"{url: 'http://tei:80'}", "tei", "http://tei:80", "default"},
		"nothing":            {"{}", "table", "", ""},
		"a key and no model": {"{api_key_file: key}", "table", "", ""},
		"none":               {"{provider: none, url: 'http://tei:80'}", "none", "http://tei:80", ""},
		"a provider":         {"{provider: OpenAI}", "openai", openAIURL, defaultOpenAIModel},
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

func TestNoEndpointIsAskedUnlessConfigured(t *testing.T) {
	openAI := EmbeddingConfig{Provider: "openai", URL: openAIURL, Model: "text-embedding-3-large", APIKeyEnv: "OPENAI_API_KEY"}
	ollama := EmbeddingConfig{Provider: "openai", URL: "http://127.0.0.1:11434", Model: "bge-m3"}
	tei := EmbeddingConfig{Provider: "tei", URL: "http://tei:80", Model: "default"}
	for name, tc := range map[string]struct {
		file, want EmbeddingConfig
		env        map[string]string
	}{
		"nothing":                {EmbeddingConfig{}, EmbeddingConfig{Provider: "table"}, nil},
		"a stray key":            {EmbeddingConfig{}, EmbeddingConfig{Provider: "table"}, map[string]string{"OPENAI_API_KEY": "k"}},
		"a model of OpenAI":      {EmbeddingConfig{}, openAI, map[string]string{"OPENAI_API_KEY": "k", "OPENAI_EMBEDDING_MODEL": openAI.Model}},
		"the URL of a TEI":       {EmbeddingConfig{}, tei, map[string]string{"TEI_BASE_URL": tei.URL}},
		"auto without anything":  {EmbeddingConfig{}, EmbeddingConfig{Provider: "table"}, map[string]string{"EMBEDDING_PROVIDER": "auto"}},
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
