package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A person removes the comment marks of what they change. With all of them
// removed that have a value, the file is one that the server takes, and nothing
// in it differs from the default.
func TestTheSampleIsAConfiguration(t *testing.T) {
	sample, err := Sample()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	key := regexp.MustCompile(`^#( *)(\w+):( .+)?$`)
	lines := strings.Split(sample, "\n")
	var used []string
	for i, line := range lines {
		m := key.FindStringSubmatch(line)
		if m == nil || strings.Contains(line, "NAME") {
			continue
		}
		above := false // has keys below it
		for _, next := range lines[i+1:] {
			if n := key.FindStringSubmatch(next); n != nil {
				above = len(n[1]) > len(m[1]) && !strings.Contains(next, "NAME")
				break
			}
		}
		if m[3] != "" && len(m[1]) <= 4 || above {
			used = append(used, m[1]+m[2]+":"+m[3])
		}
	}
	if len(used) < 40 {
		t.Fatalf("the sample has %d values: the test does not find them all\n%s", len(used), sample)
	}
	for name, text := range map[string]string{"as it is": sample, "with every value": strings.Join(used, "\n") + "\n"} {
		path := filepath.Join(dir, "kairos.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (Source{File: path}).Load(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		settings, err := (Source{File: path}).Settings()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range settings {
			if s.From != FromDefault {
				t.Errorf("%s: %s is %v from the %s, want the default", name, s.Key, s.Value, s.From)
			}
		}
	}
}

func TestSettingsSayWhereTheyComeFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos.yaml")
	text := "drivers: {watch: false, settings: {shell: {config: {token: swordfish}}}}\nsampling: {per_run: {requests: 0}}\nrun: {ttl: 2h}\nlog: {level: error}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOG_LEVEL", "debug")
	t.Setenv("QDRANT_URL", "")
	settings, err := Source{File: path, Database: "/flag/kairos.db"}.Settings()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Setting{}
	for _, s := range settings {
		got[s.Key] = s
	}
	for key, want := range map[string]Setting{
		"database":                  {Value: "/flag/kairos.db", From: FromFlag},
		"drivers.watch":             {Value: false, From: FromFile},
		"sampling.per_run.requests": {Value: uint64(0), From: FromFile},
		"run.ttl":                   {Value: "2h", From: FromFile},
		"log.level":                 {Value: "debug", From: FromEnvironment},
		"user_input.driver":         {Value: "elicitation", From: FromDefault},
		"signing.key_file":          {Value: "/flag/signing.key", From: FromDefault},
	} {
		want.Key = key
		if got[key] != want {
			t.Errorf("%s = %#v, want %#v", key, got[key], want)
		}
	}
	for _, s := range settings {
		if strings.Contains(strings.ToLower(toText(s.Value)), "swordfish") {
			t.Errorf("%s shows a secret: %v", s.Key, s.Value)
		}
	}
	if settings := toText(got["drivers.settings"].Value); settings != "map[shell:***]" {
		t.Errorf("drivers.settings = %s", settings)
	}
}

func TestAddressesAreShownWithoutPasswords(t *testing.T) {
	if got := shown("https://me:swordfish@example.org/v1"); got != "https://me:xxxxx@example.org/v1" {
		t.Errorf("shown = %v", got)
	}
}

func toText(v any) string { return fmt.Sprint(v) }
