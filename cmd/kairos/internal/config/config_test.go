package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// keysOf lists the keys that a configuration type reads, nested ones with dots.
func keysOf(t reflect.Type, prefix string) []string {
	var keys []string
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Tag.Get("yaml") == "-" {
			continue // the latter from the environment alone
		}
		key := prefix + f.Tag.Get("yaml")
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Map {
			inner = inner.Elem()
			if f.Type.Kind() == reflect.Map && inner.Kind() == reflect.Struct {
				key += ".*"
			}
		}
		if inner.Kind() == reflect.Struct {
			keys = append(keys, keysOf(inner, key+".")...)
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

type schemaNode struct {
	Properties           map[string]schemaNode `json:"properties"`
	AdditionalProperties json.RawMessage       `json:"additionalProperties"`
}

func (n schemaNode) keys(t *testing.T, prefix string) []string {
	t.Helper()
	var keys []string
	for name, p := range n.Properties {
		var each schemaNode
		if strings.HasPrefix(string(p.AdditionalProperties), "{") {
			if err := json.Unmarshal(p.AdditionalProperties, &each); err != nil {
				t.Fatal(err)
			}
		}
		switch {
		case len(each.Properties) > 0:
			keys = append(keys, each.keys(t, prefix+name+".*.")...)
		case len(p.Properties) > 0:
			if string(p.AdditionalProperties) != "false" {
				t.Errorf("%s%s allows keys that the program refuses", prefix, name)
			}
			keys = append(keys, p.keys(t, prefix+name+".")...)
		default:
			keys = append(keys, prefix+name)
		}
	}
	return keys
}

func TestTheConfigSchemaHasExactlyTheKeysThatAreRead(t *testing.T) {
	var schema schemaNode
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	want, got := keysOf(reflect.TypeFor[Config](), ""), schema.keys(t, "")
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys of config.schema.json (-read +described):\n%s", diff)
	}
}

// An operator can read all keys in one sitting: choices that nobody makes are constants.
func TestThereAreFewKeys(t *testing.T) {
	const most = 59
	var schema schemaNode
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	keys := schema.keys(t, "")
	if len(keys) > most {
		t.Errorf("there are %d keys, want at most %d: %s", len(keys), most, strings.Join(keys, " "))
	}
}

// configured is a source with this as kairos.yaml.
func configured(t *testing.T, yaml string) Source {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kairos.yaml")
	writeFile(t, file, []byte(yaml))
	return Source{File: file}
}

// Every mistake is named by its key, and a secret in its place is not repeated.
func TestNearMissesOfValues(t *testing.T) {
	const secret = "sk-4711"
	for name, tc := range map[string]struct{ yaml, want string }{
		"drivers, may":                 {"drivers: {settings: {shell: {may: [observed]}}}", `drivers.settings.shell.may has "observed": it lists observe, answer-for-people, network, change, or nothing at all; did you mean "observe"?`},
		"drivers, may twice":           {"drivers: {settings: {shell: {may: [network, network]}}}", `drivers.settings.shell.may has "network" twice`},
		"drivers, may in no list":      {"drivers: {settings: {shell: {may: network}}}", "drivers.settings.shell.may must be a list"},
		"drivers, may of other words":  {"drivers: {settings: {shell: {may: [all]}}}", `drivers.settings.shell.may has "all": it lists`},
		"drivers, memory":              {"drivers: {settings: {shell: {memory_mib: -1}}}", "drivers.settings.shell.memory_mib"},
		"drivers, call timeout of all": {"drivers: {call_timeout: 1m}", `unknown key "drivers.call_timeout"; the keys here are dir, watch, isolation, settings`},
		"drivers, too long":            {"drivers: {settings: {llm: {config: {timeout: 10s}}}}", "shorter than its call timeout, 10s"},
		"drivers, its own time":        {"drivers: {settings: {llm: {call_timeout: 3s, config: {timeout: 30s}}}}", "drivers.settings.llm.config.timeout is 30s: must be shorter than its call timeout, 3s; raise drivers.settings.llm.call_timeout"},
		"drivers, one's calls":         {"drivers: {settings: {shell: {call_timeout: -1s}}}", "drivers.settings.shell.call_timeout"},
		"drivers, a typo":              {"drivers: {wacth: true}", "wacth"},
		"http, address":                {"http: {listen: here}", "http.listen"},
		"http, port":                   {"http: {listen: '127.0.0.1:http'}", "http.listen"},
		"http, origin":                 {"http: {allowed_origins: [app.example]}", "http.allowed_origins"},
		"http, proxy":                  {"http: {trusted_proxies: [10.0.0.0/99]}", "http.trusted_proxies"},
		"http, half TLS":               {"http: {tls: {cert: c.pem}}", "http.tls"},
		"http, a limit":                {"http: {max_body: 1}", `unknown key "http.max_body"; the keys here are listen, public_url`},
		"http, metrics":                {"metrics: {listen: '9390'}", "metrics.listen"},
		"http, unknown":                {"http: {lisen: x}", "lisen"},
		"http, all right":              {"http: {listen: '[::1]:0', allowed_hosts: [a], trusted_proxies: [10.0.0.1]}\nmetrics: {listen: off}", ""},
		"embedding, provider":          {"embedding: {provider: static}", `embedding.provider`},
		"embedding, an unknown key":    {"embedding: {weights: x}", `unknown key "embedding.weights"; the keys here are provider, table, url, model, api_key_file`},
		"embedding, a typo":            {"embedding: {modl: m}", `did you mean "model"?`},
		"embedding, no scheme":         {"embedding: {url: 'localhost:11434', model: m}", "http://"},
		"embedding, a key in the url":  {"embedding: {url: 'https://me:" + secret + "@host', model: m}", "name or password"},
		"embedding, a key":             {"embedding: {model: m, api_key: " + secret + "}", `did you mean "api_key_file"?`},
		"a model, a path":              {"embedding: {model: ./nowhere}", "set embedding.table to a file with word vectors"},
		"a table, no file":             {"embedding: {table: ./nowhere}", "embedding.table: open"},
		"a table, a folder":            {"embedding: {table: .}", "is not a regular file"},
		"a table, a url":               {"embedding: {table: ./nowhere, url: 'http://127.0.0.1:1'}", "an endpoint replaces the table"},
		"provider table, a url":        {"embedding: {provider: table, url: 'http://127.0.0.1:1'}", "no endpoint is asked"},
		"database, a section":          {"database: {path: k.db}", "kairos.yaml:1:11: database must be text"},
		"tree, a list":                 {"tree: [a.yaml]", "tree must be text"},
		"user input, a section":        {"user_input: {driver: agent}", "user_input must be text"},
		"user input, a model":          {"user_input: model", `user_input is "model": must be off, elicitation, sampling, agent`},
		"sampling, requests":           {"sampling: {requests: 3}", "the keys here are tokens_per_hour"},
		"sampling, tokens":             {"sampling: {tokens_per_hour: -1}", "sampling.tokens_per_hour is -1: must not be negative; 0 means unlimited"},
		"mcp, two waits":               {"mcp: {plain_wait: 10s}", `unknown key "mcp.plain_wait"; the keys here are wait`},
		"mcp, no unit":                 {"mcp: {wait: 50}", "mcp.wait must be a duration such as"},
		"keys, one file":               {"signing: {key_file: k}", `unknown key "signing"`},
		"database, a limit":            {"database_limits: {max_size: 1}", `unknown key "database_limits"`},
		"replica, no scheme":           {"database: 'postgres://db/k'\nreplica: {address: '10.0.0.5:3300'}", "replica.address"},
		"replica, with a path":         {"database: 'postgres://db/k'\nreplica: {address: 'http://10.0.0.5/mcp'}", "replica.address"},
		"replica, another scheme":      {"database: 'postgres://db/k'\nreplica: {address: 'ftp://10.0.0.5'}", "replica.address"},
		"replica, a file":              {"database: k.db\nreplica: {address: 'http://10.0.0.5:3300'}", "set database to postgres://"},
		"replica, all right":           {"database: 'postgres://db/k'\nreplica: {address: 'https://[fd00::5]:3300'}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configured(t, tc.yaml).Load()
			if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), secret)) {
				t.Errorf("load: %v, want an error that names %q", err, tc.want)
			}
		})
	}
}

// writeLock makes a folder with the lock of one driver that has settings.
func writeLock(t *testing.T, folder, name, schema string) {
	t.Helper()
	lock := driverhost.Lock{Version: 1, Drivers: []driverhost.LockedEntry{{
		Name: name, Version: "1.0.0", File: "kairos-driver-" + name, SHA256: map[string]string{driverhost.Platform(): strings.Repeat("0", 64)},
		Descriptor: driver.Descriptor{
			Name: name, Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{name}, Effect: driver.EffectPure, ConfigSchema: json.RawMessage(schema),
		},
	}}}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := driverhost.WriteLock(filepath.Join(folder, driverhost.LockName), lock); err != nil {
		t.Fatal(err)
	}
}

func TestConfigCheckReportsEveryMistakeAtOnce(t *testing.T) {
	t.Setenv("SCORE_THRESHOLD", "high")
	s := configured(t, `database: kairos.db
drivers:
  wacth: true
  dir: drivers
  settings:
    shell: {call_timeout: soon}
    coment: {memory_mib: 10}
    comment:
      config: {lexical_treshold: 0.5, other: 3}
      memory_mib: lots
    mcp: {env_from: &names [TOKEN], config: {names: *names}}
emebdding: {}
store: postgres
tree: tree.yaml
rules:
  - {evidnce: server}
`)
	dir := filepath.Dir(s.File)
	writeLock(t, filepath.Join(dir, "drivers"), "comment",
		`{"type":"object","additionalProperties":false,"properties":{"lexical_threshold":{"type":"number"},"other":{"type":"string"}}}`)
	writeFile(t, filepath.Join(dir, "tree.yaml"), []byte("version: 1\nchalenges: []\n"))
	err := s.CheckFiles()
	if err == nil {
		t.Fatal("checkFiles found nothing wrong")
	}
	if strings.Contains(err.Error(), "settings.mcp.config") {
		t.Error("checkFiles complains about settings that are aliases")
	}
	for _, want := range []string{
		`kairos.yaml:3:3: unknown key "drivers.wacth"; did you mean "watch"?`,
		`kairos.yaml:6:27: drivers.settings.shell.call_timeout must be a duration such as 90s, 10m or 24h`,
		`kairos.yaml:10:19: drivers.settings.comment.memory_mib must be a whole number`,
		`kairos.yaml:12:1: unknown key "emebdding"; did you mean "embedding"?`,
		`environment SCORE_THRESHOLD="high": must be a number`,
		`kairos.yaml:13:1: unknown key "store"`,
		`tree.yaml:2: unknown key "chalenges"`,
		`kairos.yaml:16: rules[0]: unknown key "evidnce", did you mean "evidence"?`,
		`kairos.yaml:7:5: drivers.settings.coment: drivers.lock has no driver of this name; did you mean "comment"?`,
		`kairos.yaml:9:7: drivers.settings.comment.config: unknown key "lexical_treshold"; did you mean "lexical_threshold"?`,
		`kairos.yaml:9:39: drivers.settings.comment.config.other: got number, want string`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("checkFiles does not say %s", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

// An alias can name a list of aliases: ten such lines expand to more values than
// any machine has memory for.
func TestAliasesDoNotFillTheMemory(t *testing.T) {
	bomb := "drivers:\n  settings:\n    shell:\n      config:\n        a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 12 {
		bomb += fmt.Sprintf("        a%d: &a%[1]d [%s]\n", i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	for name, tc := range map[string]struct{ text, want string }{
		"doubled":        {bomb, "its aliases expand to more than 100000 values"},
		"merged":         {strings.ReplaceAll(bomb, "[*", "[{<<: *"), "kairos.yaml:"},
		"of itself":      {"drivers: {settings: {shell: {config: {a: &a [*a, *a]}}}}", ""},
		"of an ordinary": {"drivers: {settings: {shell: {config: &c {a: [1, 2]}, may: []}, mcp: {config: *c}}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := configured(t, tc.text).Load()
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("load: %v, want %s", err, tc.want)
			}
			if name == "of an ordinary" {
				if got, jsonErr := c.Drivers.Settings["mcp"].JSON(); err != nil || string(got) != `{"a":[1,2]}` {
					t.Errorf("the settings behind the alias are %s (%v, %v)", got, err, jsonErr)
				}
			}
		})
	}
}

// Errors name the place and not the value, which may be a secret, like the lines
// around it.
func TestAFindingQuotesNoValueOfTheConfiguration(t *testing.T) {
	const secret = "hunter2-and-more"
	for name, text := range map[string]string{
		"syntax":    "qdrant: {api_key_file: '" + secret + "'}\ndrivers: [\nlog: }\n",
		"duplicate": "embedding:\n  model: " + secret + "\nembedding: 3\n",
		"type":      "run:\n  ttl: " + secret + "\n",
		"alias":     "drivers: {dir: *" + "nowhere, settings: {shell: {config: {token: " + secret + "}}}}\n",
		"settings":  "drivers: {settings: {shell: {config: {token: " + secret + ", when: " + secret + ", kind: " + secret + ", list: [" + secret + "], number: " + secret + "}}}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := configured(t, text)
			folder := filepath.Join(filepath.Dir(s.File), "drivers")
			writeLock(t, folder, "shell", `{"type":"object","properties":{"token":{"type":"string","pattern":"^[0-9]+$","writeOnly":true},
				"when":{"type":"string","format":"date"},"kind":{"enum":["a","b"]},"list":{"type":"array","items":{"const":1}},"number":{"type":"number"}}}`)
			t.Setenv("KAIROS_DRIVERS_DIR", folder)
			err := s.CheckFiles()
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("checkFiles = %v, want an error without the value", err)
			}
			if name == "settings" {
				for _, key := range []string{"token", "when", "kind", "list.0", "number"} {
					if !strings.Contains(err.Error(), "drivers.settings.shell.config."+key) {
						t.Errorf("%s is not found to be wrong in %v", key, err)
					}
				}
			}
		})
	}
}

// FuzzConfiguration reads any file as kairos.yaml: it is taken or refused with
// a text that is not too long to read.
func FuzzConfiguration(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "[]", "x", "sampling: {tokens_per_hour: 1e9}", "run: {ttl: 9999999h}", "a: &a [*a]",
		"drivers: {dir: .}\nservers: {a: {url: 'http://u:p@h'}}", "http: {trusted_proxies: ['::1%eth0/64']}", "\xff", "? {a: b}\n: c",
		"embedding: {url: '://'}", "database: \x00", "log: {format: json}\nlog: {format: text}", "mcp: {wait: -1s}",
		"qdrant: {url: x}\napproval: {how: maybe}\nuser_input: agent",
	} {
		f.Add([]byte(seed))
	}
	file := filepath.Join(f.TempDir(), "kairos.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		writeFile(t, file, text)
		at := &Source{File: file}
		if _, err := at.Load(); err != nil && len(err.Error()) > 20_000+4*len(text) {
			t.Errorf("the refusal has %d bytes", len(err.Error()))
		}
	})
}

func TestOperationsAreServedToThisMachineUnlessConfigured(t *testing.T) {
	yes, no := true, false
	for name, tc := range map[string]struct {
		listen     string
		configured *bool
		socket     string
		want       bool
	}{
		"this machine":               {"127.0.0.1:3300", nil, "", true},
		"other machines":             {"0.0.0.0:3300", nil, "", false},
		"this machine, turned off":   {"127.0.0.1:3300", &no, "", false},
		"other machines, turned on":  {"0.0.0.0:3300", &yes, "", true},
		"a name that others resolve": {"kairos.example.org:3300", nil, "", false},
		"no token":                   {"127.0.0.1:3300", nil, AdminOff, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{HTTP: httpConfig{Listen: tc.listen, Operations: tc.configured}, Admin: adminConfig{Socket: tc.socket}}
			if got := c.ServesOperations(); got != tc.want {
				t.Errorf("ServesOperations = %t, want %t", got, tc.want)
			}
		})
	}
}

// The names of the earlier server, which knew Keycloak alone, and read them with AUTH_ENABLED.
func TestTheEnvironmentNamesKeycloak(t *testing.T) {
	for name, tc := range map[string]struct {
		file             string
		env              map[string]string
		issuer, audience string
		enabled          bool
	}{
		"nothing":                {},
		"no login":               {env: map[string]string{"KEYCLOAK_URL": "https://id.example"}},
		"a login":                {env: map[string]string{"AUTH_ENABLED": "true", "KEYCLOAK_URL": "https://id.example/"}, issuer: "https://id.example/realms/kairos-dev", audience: "kairos-mcp", enabled: true},
		"all of it":              {env: map[string]string{"AUTH_ENABLED": "true", "KEYCLOAK_URL": "https://id.example", "KEYCLOAK_REALM": "acme", "KEYCLOAK_CLIENT_ID": "kairos"}, issuer: "https://id.example/realms/acme", audience: "kairos", enabled: true},
		"an audience":            {env: map[string]string{"AUTH_ENABLED": "true", "KEYCLOAK_URL": "https://id.example", "AUTH_ALLOWED_AUDIENCES": "https://kairos.example"}, issuer: "https://id.example/realms/kairos-dev", audience: "https://kairos.example", enabled: true},
		"the file alone":         {file: "oidc: {issuer: https://id.example, audience: a}", issuer: "https://id.example", audience: "a", enabled: true},
		"the file, an audience":  {file: "oidc: {issuer: https://id.example, audience: a}", env: map[string]string{"AUTH_ALLOWED_AUDIENCES": "b"}, issuer: "https://id.example", audience: "b", enabled: true},
		"access tokens alone":    {file: "auth: {enabled: true}", enabled: true},
		"the environment on top": {file: "oidc: {issuer: https://a.example, audience: a}", env: map[string]string{"AUTH_ENABLED": "true", "KEYCLOAK_URL": "https://id.example"}, issuer: "https://id.example/realms/kairos-dev", audience: "a", enabled: true},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range tc.env {
				t.Setenv(name, value)
			}
			c, err := configured(t, tc.file+"\n").Load()
			if err != nil {
				t.Fatal(err)
			}
			if c.OIDC.Issuer != tc.issuer || c.OIDC.Audience != tc.audience || c.Auth.Enabled != tc.enabled {
				t.Errorf("oidc = %+v, enabled %t, want %q, %q, %t", c.OIDC, c.Auth.Enabled, tc.issuer, tc.audience, tc.enabled)
			}
		})
	}
}

// The names of the earlier server keep their meaning.
func TestTheEnvironmentSaysWhoIsAskedForInput(t *testing.T) {
	for name, tc := range map[string]struct{ file, on, first, want string }{
		"nothing":                {"", "", "", "off"},
		"on":                     {"", "true", "", "elicitation"},
		"on, a model first":      {"", "true", "sampling", "sampling"},
		"a driver that is off":   {"", "", "sampling", "off"},
		"off beats the file":     {"agent", "false", "sampling", "off"},
		"the file alone":         {"agent", "", "", "agent"},
		"a driver over the file": {"agent", "", "sampling", "sampling"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KAIROS_ENABLE_USER_INPUT_SERVER_DRIVER", tc.on)
			t.Setenv("KAIROS_USER_INPUT_DRIVER", tc.first)
			c, err := configured(t, "user_input: "+tc.file+"\n").Load()
			if facts := c.Facts().UserInput; err != nil || c.UserInput != tc.want || facts.Enabled != (tc.want != "off") || facts.Enabled && facts.Driver != tc.want {
				t.Errorf("user_input = %q, facts %+v (%v), want %q", c.UserInput, facts, err, tc.want)
			}
		})
	}
}

// Each key of the sample, the schema and the manual has a sentence.
func TestEveryKeySaysWhatItIs(t *testing.T) {
	schema, err := orderedSchema()
	if err != nil {
		t.Fatal(err)
	}
	eachKey("", schema, func(key string, of yaml.MapSlice) {
		if meaning, _ := member(of, "description").(string); len(strings.ReplaceAll(meaning, "Needs a restart.", "")) < 15 {
			t.Errorf("%s is described as %q, want a sentence", key, meaning)
		}
	})
}

// The file of `kairos init` is short, and its values are the defaults.
func TestTheStarterIsShortAndSaysTheDefaults(t *testing.T) {
	if lines := strings.Count(Starter, "\n"); lines != 12 {
		t.Errorf("the starter has %d lines, want 12", lines)
	}
	settings, err := configured(t, Starter).Settings()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		if s.From == FromFile && s.Key != "database" {
			t.Errorf("%s is %v, want the default", s.Key, s.Value)
		}
	}
	if _, err := configured(t, strings.Replace(Starter, "# rules:", "rules:", 1)).Load(); err != nil || !strings.Contains(Starter, "\n# rules:") {
		t.Errorf("the example of a rule, without its mark: %v", err)
	}
}

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
	if len(used) < 30 {
		t.Fatalf("the sample has %d values: the test does not find them all\n%s", len(used), sample)
	}
	for name, text := range map[string]string{"as it is": sample, "with every value": strings.Join(used, "\n") + "\n"} {
		path := filepath.Join(dir, "kairos.yaml")
		writeFile(t, path, []byte(text))
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
	text := "drivers: {watch: false, settings: {shell: {config: {token: swordfish}}}}\nsampling: {tokens_per_hour: 0}\nrun: {ttl: 2h}\nlog: {level: error}\n"
	writeFile(t, path, []byte(text))
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
		"database":                 {Value: "/flag/kairos.db", From: FromFlag},
		"drivers.watch":            {Value: false, From: FromFile},
		"sampling.tokens_per_hour": {Value: uint64(0), From: FromFile},
		"run.ttl":                  {Value: "2h", From: FromFile},
		"log.level":                {Value: "debug", From: FromEnvironment},
		"user_input":               {Value: "off", From: FromDefault},
		"keys_dir":                 {Value: "/flag", From: FromDefault},
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

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A permission that a driver makes no use of is said, and keeps no server from starting.
func TestPermissionsThatAreNotUsedAreSaid(t *testing.T) {
	known := []driver.Descriptor{
		{Name: "shell", Role: driver.RoleChallenge, Effect: driver.EffectPure},
		{Name: "tools", Role: driver.RoleCapability, Effect: driver.EffectChanges, Features: []string{driver.FeaturePreview}},
		{Name: "till", Role: driver.RoleCapability, Effect: driver.EffectChanges},
		{Name: "form", Role: driver.RoleCapability, Effect: driver.EffectReads, Features: []string{driver.FeatureHuman}},
	}
	for name, tc := range map[string]struct {
		driver string
		may    driverhost.May
		want   string
	}{
		"observe of a pure driver":       {"shell", driverhost.May{"observe"}, `drivers.settings.shell.may has "observe", which the descriptor of driver shell does not claim`},
		"people of a driver that looks":  {"till", driverhost.May{"answer-for-people"}, `which the descriptor of driver till does not claim`},
		"observe of a person's driver":   {"form", driverhost.May{"observe"}, `which the descriptor of driver form does not claim`},
		"change of one that previews":    {"tools", driverhost.May{"change"}, `which driver tools does not need: it changes only what is accepted with kairos accept`},
		"change of a driver that cannot": {"form", driverhost.May{"change"}, `which the descriptor of driver form does not claim`},
		"what it claims":                 {"till", driverhost.May{"observe", "network", "change"}, ""},
		"nothing":                        {"form", driverhost.May{}, ""},
	} {
		c := DriversConfig{Settings: map[string]DriverSettings{tc.driver: {May: tc.may}}}
		wrong, unused := c.SettingProblems(known, "")
		if len(wrong) > 0 || (len(unused) > 0) != (tc.want != "") || tc.want != "" && !strings.Contains(unused[0].Error(), tc.want) {
			t.Errorf("%s: SettingProblems = %v, %v, want %q", name, wrong, unused, tc.want)
		}
	}
}
