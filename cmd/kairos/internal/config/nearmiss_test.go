package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is almost right is understood or refused with the right spelling: taken as it is,
// an address of another form would be a new, empty file.
func TestNearMisses(t *testing.T) {
	for name, tc := range addresses() {
		for _, from := range []string{"kairos.yaml:1:1: database: ", "environment KAIROS_DB: ", "--db: "} {
			t.Run("database, "+name+", "+from, func(t *testing.T) { tc.run(t, from) })
		}
	}
	for name, tc := range map[string]nearMiss{
		"a second document":            {yaml: "log: {level: warn}\n---\nlog: {level: debug}\n", want: "kairos.yaml:3: a second document begins here"},
		"an empty first document":      {yaml: "---\n---\nlog: {level: debug}\n", want: "kairos.yaml:3: a second document begins here"},
		"a document with an end":       {yaml: "---\nlog: {level: warn}\n...\n"},
		"a byte order mark":            {yaml: "\ufefflog: {level: wran}\n", want: "kairos.yaml:1:7: log.level"},
		"lines of Windows":             {yaml: "log:\r\n  level: warn\r\n"},
		"UTF-16":                       {yaml: "\xff\xfel\x00o\x00g\x00:\x00", want: "is UTF-16: save it as UTF-8"},
		"a tab":                        {yaml: "log:\n\tlevel: warn\n", want: "kairos.yaml:2:1"},
		"JSON":                         {yaml: `{"log": {"level": "warn"}}`},
		"another case":                 {yaml: "Log: {level: warn}\n", want: `unknown key "Log"; did you mean "log"?`},
		"dots in a key":                {yaml: "log.level: warn\n", want: `unknown key "log.level"`},
		"a dash for an underscore":     {yaml: "user-input: agent\n", want: `did you mean "user_input"?`},
		"a list for a section":         {yaml: "log: [warn]\n", want: "log must be a mapping"},
		"text for yes":                 {yaml: "http: {operations: sure}\n", want: "http.operations must be true or false"},
		"host, a URL":                  {yaml: "http: {allowed_hosts: ['https://app.example.org/x']}\n", want: `kairos.yaml:1:8: http.allowed_hosts has "https://app.example.org/x": must be a name without scheme and path: write app.example.org`},
		"host, a whole domain":         {yaml: "http: {allowed_hosts: ['*.example.org']}\n", want: "write each out, such as app.example.org, or * for any"},
		"host, a domain with a dot":    {yaml: "http: {allowed_hosts: [.example.org]}\n", want: "http.allowed_hosts"},
		"host, a path":                 {yaml: "http: {allowed_hosts: [example.org/mcp]}\n", want: "http.allowed_hosts"},
		"host, two in one":             {yaml: "http: {allowed_hosts: ['a.example, b.example']}\n", want: "http.allowed_hosts"},
		"host, empty":                  {yaml: "http: {allowed_hosts: ['']}\n", want: "http.allowed_hosts"},
		"host, not ASCII":              {yaml: "http: {allowed_hosts: [bücher.example]}\n", want: "in ASCII"},
		"host, with a port":            {yaml: "http: {allowed_hosts: ['app.example.org:443', '[::1]:3300', 10.0.0.5, '*']}\n"},
		"origin, no scheme":            {yaml: "http: {allowed_origins: [app.example.org]}\n", want: "must be like https://"},
		"origin, a whole domain":       {yaml: "http: {allowed_origins: ['https://*.example.org']}\n", want: "each written out"},
		"origin, a path":               {yaml: "http: {allowed_origins: ['https://example.org/app']}\n", want: "http.allowed_origins"},
		"origin, a query":              {yaml: "http: {allowed_origins: ['https://example.org?x=1']}\n", want: "http.allowed_origins"},
		"proxy, a name":                {yaml: "http: {trusted_proxies: [proxy.local]}\n", want: "http.trusted_proxies"},
		"proxy, a URL":                 {env: env{"TRUSTED_PROXY_CIDRS": "http://10.0.0.1"}, want: "environment TRUSTED_PROXY_CIDRS: http.trusted_proxies"},
		"listen, a port alone":         {yaml: "http: {listen: 3300}\n", want: "http.listen is \"3300\": must be host:port"},
		"listen, a URL":                {yaml: "http: {listen: 'http://127.0.0.1:3300'}\n", want: "must be host:port"},
		"listen, a star":               {yaml: "http: {listen: '*:3300'}\n", want: `"*" is not a host: write 127.0.0.1, or 0.0.0.0`},
		"listen, a port too large":     {yaml: "http: {listen: '127.0.0.1:70000'}\n", want: "the port must be a number from 0 to 65535"},
		"listen, no port":              {yaml: "http: {listen: 127.0.0.1}\n", want: "must be host:port"},
		"listen, for everybody":        {yaml: "http: {listen: '0.0.0.0:3300'}\n", want: "kairos.yaml:1:8: http.listen: listening on 0.0.0.0:3300 is refused", check: true},
		"listen, any address":          {yaml: "http: {listen: ':3300'}\n", want: "is refused", check: true},
		"listen, insecure":             {yaml: "http: {listen: '0.0.0.0:3300', insecure: true}\n", want: `kairos.yaml:1:32: unknown key "http.insecure"; the keys here are listen`},
		"listen, of IPv6":              {yaml: "http: {listen: '[::1]:3300'}\n"},
		"metrics, for everybody":       {yaml: "metrics: {listen: '0.0.0.0:9390'}\n", want: "metrics.listen: listening on 0.0.0.0:9390 is refused", check: true},
		"TLS, no file":                 {yaml: "http: {tls: {cert: no.pem, key: no.key}}\n", want: "http.tls: open", check: true},
		"Qdrant, a key that is absent": {yaml: "qdrant: {url: 'http://localhost:6334', api_key_file: no.key}\n", want: "read qdrant.api_key_file: open /no.key", check: true},
		"public URL, no scheme":        {yaml: "http: {public_url: kairos.example.org}\n", want: "must be like https://kairos.example.org"},
		"public URL, the endpoint":     {yaml: "http: {public_url: 'https://kairos.example.org/mcp'}\n", want: "write https://kairos.example.org"},
		"public URL, no host":          {yaml: "http: {public_url: 'https:///kairos'}\n", want: "http.public_url"},
		"port, of another service":     {env: env{"PORT": "tcp://10.0.0.1:3300"}, want: "environment PORT"},
		"port, too large":              {env: env{"METRICS_PORT": "65536"}, want: "must be a port from 0 to 65535"},
		"port, with a colon":           {env: env{"PORT": ":3300"}, want: "environment PORT"},
		"port, with spaces":            {env: env{"PORT": " 3300\n"}},
		"level, another name":          {env: env{"LOG_LEVEL": "trace"}, want: "environment LOG_LEVEL: log.level is \"trace\": must be debug, info, warn or error"},
		"level, warning":               {env: env{"LOG_LEVEL": "Warning"}},
		"level, in the file":           {yaml: "log:\n  level: fatal\n", want: "kairos.yaml:2:3: log.level is \"fatal\""},
		"level, in quotes":             {env: env{"LOG_LEVEL": `"debug"`}, want: "environment LOG_LEVEL: its value is in quotes"},
		"format, another name":         {env: env{"LOG_FORMAT": "pretty"}, want: "environment LOG_FORMAT: log.format"},
		"threshold, a comma":           {env: env{"SCORE_THRESHOLD": "0,3"}, want: "environment SCORE_THRESHOLD"},
		"threshold, not a number":      {env: env{"SCORE_THRESHOLD": "NaN"}, want: "environment SCORE_THRESHOLD is NaN: must be from 0 to 1"},
		"threshold, a percentage":      {env: env{"SCORE_THRESHOLD": "30"}, want: "environment SCORE_THRESHOLD is 30: must be from 0 to 1"},
		"provider, of before":          {env: env{"EMBEDDING_PROVIDER": "static"}, want: "environment EMBEDDING_PROVIDER: embedding.provider is \"static\": must be table, none, openai, tei or auto"},
		"provider, in capitals":        {env: env{"EMBEDDING_PROVIDER": "None"}},
		"provider, another word":       {yaml: "embedding: {provider: off}\n", want: "kairos.yaml:1:13: embedding.provider is \"off\": must be table, none"},
		"table, a language":            {yaml: "embedding: {table: german}\n", want: "kairos.yaml:1:13: embedding.table: open /german: no such file"},
		"table, JSON":                  {yaml: "embedding: {table: kairos.yaml}\n", want: "`kairos db embedding table` makes one from word vectors"},
		"a switch, yes":                {env: env{"KAIROS_ENABLE_USER_INPUT_SERVER_DRIVER": "yes"}, want: "must be true or false"},
		"a login":                      {env: env{"AUTH_ENABLED": "true"}},
		"no login":                     {env: env{"AUTH_ENABLED": "false"}},
		"a login, another word":        {env: env{"AUTH_ENABLED": "on"}, want: "environment AUTH_ENABLED=\"on\": must be true or false"},
		"a login, by Keycloak":         {env: env{"AUTH_ENABLED": "true", "KEYCLOAK_URL": "https://id.example/"}},
		"Keycloak, in clear":           {env: env{"AUTH_ENABLED": "true", "KEYCLOAK_URL": "http://id.example"}, want: "environment KEYCLOAK_URL: oidc.issuer is \"http://id.example/realms/kairos-dev\": it must begin with https://"},
		"two audiences":                {env: env{"AUTH_ENABLED": "true", "KEYCLOAK_URL": "https://id.example", "AUTH_ALLOWED_AUDIENCES": "kairos,account"}, want: "this server is one audience"},
		"audiences of nothing":         {env: env{"AUTH_ALLOWED_AUDIENCES": "kairos,account"}},
		"a provider":                   {yaml: "oidc: {issuer: https://id.example, audience: https://kairos.example}\n"},
		"a provider of this machine":   {yaml: "oidc: {issuer: 'http://localhost:8080/realms/acme', audience: kairos}\n"},
		"a provider without audience":  {yaml: "oidc: {issuer: https://id.example}\n", want: "kairos.yaml:1:1: oidc.audience is missing: set it to"},
		"an audience alone":            {yaml: "oidc: {audience: kairos}\n", want: "oidc.issuer is \"\": it must be the address of an identity provider"},
		"a provider in clear":          {yaml: "oidc: {issuer: http://id.example, audience: kairos}\n", want: "kairos.yaml:1:8: oidc.issuer is \"http://id.example\": it must begin with https://"},
		"a provider without scheme":    {yaml: "oidc: {issuer: id.example, audience: kairos}\n", want: "oidc.issuer is \"id.example\": it must be the address of an identity provider"},
		"a provider's document":        {yaml: "oidc: {issuer: 'https://id.example/.well-known/openid-configuration', audience: kairos}\n", want: "without /.well-known/openid-configuration"},
		"a realm of ours":              {yaml: "oidc: {issuer: https://id.example/realms/local, audience: kairos}\n", want: "use another realm"},
		"an audience of two words":     {yaml: "oidc: {issuer: https://id.example, audience: 'a b'}\n", want: "oidc.audience is \"a b\": must be one word"},
		"audiences, a list":            {yaml: "oidc: {issuer: https://id.example, audience: [a, b]}\n", want: "oidc.audience"},
		"a provider, a typing error":   {yaml: "oidc: {isuer: https://id.example}\n", want: "oidc.isuer"},
		"a provider, other words":      {yaml: "oidc: {issuer: https://id.example, audience: kairos, client_id: a, discovery: b}\n", want: "oidc.discovery"},
		"a secret and no client":       {yaml: "oidc: {issuer: https://id.example, audience: kairos, client_secret_file: x}\n", want: "oidc.client_secret_file is set without oidc.client_id"},
		"a provider and no login":      {yaml: "auth: {enabled: false}\noidc: {issuer: https://id.example, audience: kairos}\n", want: "kairos.yaml:1:8: auth.enabled is false, but oidc names an identity provider"},
		"a provider and none by env":   {yaml: "oidc: {issuer: https://id.example, audience: kairos}\n", env: env{"AUTH_ENABLED": "false"}, want: "environment AUTH_ENABLED: auth.enabled is false"},
		"a provider for all, in clear": {yaml: "oidc: {issuer: https://id.example, audience: kairos}\nhttp: {listen: '0.0.0.0:3300'}\n", want: "other machines reach it with tokens in the clear. Set http.tls", check: true},
		"Keycloak without a login":     {env: env{"KEYCLOAK_URL": "https://id.example"}},
		"a login, a text":              {yaml: "auth: {enabled: 'yes'}\n", want: "kairos.yaml:1:17: auth.enabled must be true or false"},
		"a login, a typing error":      {yaml: "auth: {enable: true}\n", want: "auth.enable"},
		"spaces, whole":                {yaml: "auth: {enabled: true}\nspaces: {production: {run: [group:eng], write: [group:acme:sre, user:ada]}}\noperators: [group:platform]\n"},
		"spaces, nobody is known":      {yaml: "spaces: {production: {run: [group:eng]}}\n", want: "kairos.yaml:1:1: spaces says what people may do, and this configuration knows nobody: set auth.enabled"},
		"operators, nobody is known":   {yaml: "operators: [group:platform]\n", want: "operators says what people may do"},
		"spaces, a list":               {yaml: "auth: {enabled: true}\nspaces: [production]\n", want: "kairos.yaml:2:"},
		"spaces, a third verb":         {yaml: "auth: {enabled: true}\nspaces: {production: {read: [group:eng]}}\n", want: `unknown key "spaces.production.read"`},
		"spaces, a typing error":       {yaml: "auth: {enabled: true}\nspaces: {production: {wirte: [group:eng]}}\n", want: `did you mean "write"?`},
		"spaces, a group alone":        {yaml: "auth: {enabled: true}\nspaces: {production: {run: group:eng}}\n", want: "spaces.production.run"},
		"spaces, a group without kind": {yaml: "auth: {enabled: true}\nspaces: {production: {run: [eng]}}\n", want: `spaces.production.run: "eng" names nobody: write group:NAME`},
		"spaces, nobody":               {yaml: "auth: {enabled: true}\nspaces: {production: {}}\n", want: "spaces.production lets nobody run or write"},
		"spaces, an id":                {yaml: "auth: {enabled: true}\nspaces: {'space:production': {run: [group:eng]}}\n", want: `"space:production" cannot be the name of a space`},
		"spaces, that of the program":  {yaml: "auth: {enabled: true}\nspaces: {kairos-app: {write: [group:eng]}}\n", want: `"kairos-app" is the name of a space that KAIROS has itself`},
		"operators, one alone":         {yaml: "auth: {enabled: true}\noperators: group:platform\n", want: "operators"},
		"a login, no mapping":          {yaml: "auth: true\n", want: "auth"},
		"a login for all, in clear":    {yaml: "auth: {enabled: true}\nhttp: {listen: '0.0.0.0:3300'}\n", want: "other machines reach it with tokens in the clear. Set http.tls", check: true},
		"a login for all, by a proxy":  {yaml: "auth: {enabled: true}\nhttp: {listen: '0.0.0.0:3300', trusted_proxies: [10.0.0.0/8]}\n", check: true},
		"metrics for all":              {yaml: "auth: {enabled: true}\nmetrics: {listen: '0.0.0.0:9390'}\n", want: "metrics.listen: listening on 0.0.0.0:9390 is refused", check: true},
		"nothing set":                  {env: env{"KAIROS_TREE": "", "LOG_LEVEL": " ", "PORT": "", "SCORE_THRESHOLD": "", "KAIROS_DB": ""}},
		"variable, a typing error":     {env: env{"KAIROS_DRIVER_DIR": "x"}, want: "environment KAIROS_DRIVER_DIR is not read: did you mean KAIROS_DRIVERS_DIR?", check: true},
		"variable, a longer word":      {env: env{"KAIROS_DATABASE_URL": "x"}, want: "did you mean KAIROS_DB?", check: true},
		"variable, with our prefix":    {env: env{"KAIROS_LOG_LEVEL": "debug"}, want: "did you mean LOG_LEVEL?", check: true},
		"variable, in small letters":   {env: env{"kairos_db": "x"}, want: "did you mean KAIROS_DB?", check: true},
		"variable, of Kubernetes":      {env: env{"KAIROS_PORT": "tcp://10.0.0.1:3300", "KAIROS_SERVICE_HOST": "10.0.0.1"}},
		"duration, no unit":            {yaml: "run: {ttl: 30}\n", want: "run.ttl must be a duration such as 90s, 10m or 24h"},
		"duration, days":               {yaml: "run: {keep: 90d}\n", want: "run.keep must be a duration"},
		"duration, a space":            {yaml: "run: {ttl: 10 m}\n", want: "run.ttl must be a duration"},
		"duration, negative":           {yaml: "run: {ttl: -1h}\n", want: "kairos.yaml:1:7: run.ttl is -1h0m0s: must not be negative"},
		"size, with a unit":            {yaml: "drivers: {settings: {shell: {memory_mib: 512MiB}}}\n", want: "drivers.settings.shell.memory_mib must be a whole number"},
		"path, a variable":             {yaml: "tree: ${NO_SUCH_VARIABLE}/tree.yaml\n", want: "kairos.yaml:1:1: tree: ${NO_SUCH_VARIABLE} is in it, but the environment variable NO_SUCH_VARIABLE is not set"},
		"path, another's home":         {yaml: "drivers: {dir: ~root/drivers}\n", want: "drivers.dir: only ~/ is understood"},
		"path, in quotes":              {env: env{"KAIROS_TREE": "'/srv/tree.yaml'"}, want: "environment KAIROS_TREE: its value is in quotes"},
		"path, two lines":              {env: env{"KAIROS_TOOLS": "/a\n/b"}, want: "environment KAIROS_TOOLS: it has a line end"},
		"path, a default in it":        {yaml: "keys_dir: '${KEYS:-/etc/keys}'\n", want: "${KEYS:-/etc/keys} is not a variable: write ${NAME}"},
	} {
		t.Run(name, func(t *testing.T) { tc.run(t, "") })
	}
}

type env = map[string]string

// nearMiss is a configuration and what must be said about it; nothing is said about one
// that is understood.
type nearMiss struct {
	yaml  string
	env   env
	text  string // of a database, wherever it is written
	want  string // in the error; "": it is understood
	check bool   // only `kairos config check` says it, and the server at its start
}

func (tc nearMiss) run(t *testing.T, from string) {
	t.Setenv("HOME", "/home/me")
	var s Source
	switch {
	case strings.HasPrefix(from, "kairos.yaml"):
		tc.yaml = "database: '" + strings.ReplaceAll(tc.text, "'", "''") + "'\n"
	case strings.HasPrefix(from, "environment"):
		tc.env = env{"KAIROS_DB": tc.text}
	case from != "":
		s.Database = tc.text
	}
	for name, value := range tc.env {
		t.Setenv(name, value)
	}
	s.File = configured(t, tc.yaml).File
	writeLock(t, filepath.Join(filepath.Dir(s.File), "drivers"), "shell", "{}")
	c, err := s.Load()
	if tc.check || err == nil && tc.text == "" {
		if err != nil {
			t.Errorf("Load = %v, want nil", err)
		}
		t.Setenv("KAIROS_DRIVERS_DIR", filepath.Join(filepath.Dir(s.File), "drivers"))
		err = s.CheckFiles()
	}
	said := strings.ReplaceAll(fmt.Sprint(err), filepath.Dir(s.File), "")
	switch {
	case tc.want == "" || strings.HasPrefix(tc.want, "="):
		if want := strings.TrimPrefix(tc.want, "="); err != nil && !strings.Contains(err.Error(), "no driver") || want != "" && c.Database.Address() != want {
			t.Errorf("database %q, %v, want %q", c.Database.Address(), err, want)
		}
	case err == nil || !strings.Contains(said, tc.want) || !strings.Contains(said, from) || strings.Contains(said, "swordfish"):
		t.Errorf("error %v, want %s%s", err, from, tc.want)
	}
}

// addresses are databases in other forms; "=" is what they are understood as.
func addresses() map[string]nearMiss {
	all := map[string]nearMiss{}
	for text, want := range map[string]string{
		"POSTGRES://me:swordfish@db/kairos":                      "=postgres://me:swordfish@db/kairos",
		"PostgreSQL://db/kairos":                                 "=postgresql://db/kairos",
		"~/kairos.db":                                            "=/home/me/kairos.db",
		"${HOME}/kairos.db":                                      "=/home/me/kairos.db",
		"$HOME/data/kairos.db":                                   "=/home/me/data/kairos.db",
		" /srv/kairos.db ":                                       "=/srv/kairos.db",
		"postgres://me:sword$fish@db/kairos":                     "=postgres://me:sword$fish@db/kairos",
		"host=db user=me password=swordfish dbname=kairos":       "write postgres://me:PASSWORD@db/kairos",
		"host = db":                                              "write postgres://",
		"dbname=kairos port=5433 host=db":                        "write postgres://USER:PASSWORD@db:5433/kairos",
		"host=/run/postgresql dbname=kairos user=me":             "write postgres://me@/kairos?host=/run/postgresql",
		"postgresql+asyncpg://me:swordfish@db/kairos":            "the name of a driver does not belong into it: write postgres://me:PASSWORD@db/kairos",
		"postgresql+psycopg2://db/kairos":                        "write postgres://USER:PASSWORD@db/kairos",
		"jdbc:postgresql://db:5432/k?user=me&password=swordfish": "it is an address of JDBC: write postgres://me:PASSWORD@db:5432/k",
		"pgsql://db/kairos":                                      "PostgreSQL is named by postgres:// alone: write postgres://USER:PASSWORD@db/kairos",
		"postgres:/db/kairos":                                    "write postgres://",
		"postgres:db":                                            "write postgres://",
		"sqlite:///kairos.db":                                    "a SQLite database is named by its path alone: write kairos.db",
		"sqlite:////srv/kairos.db":                               "write /srv/kairos.db",
		"postgres//db/kairos":                                    "write postgres://USER:PASSWORD@HOST:PORT/DATABASE",
		"//db/kairos":                                            "looks like the address of a server",
		"me:swordfish@db/kairos":                                 "me: is not a database that KAIROS works with",
		"me@db/kairos":                                           "looks like the address of a server",
		"kairos.db?mode=ro":                                      "a SQLite database is named by its path alone: write kairos.db",
		"sqlite:kairos.db":                                       "write kairos.db",
		"sqlite:/srv/kairos.db":                                  "write /srv/kairos.db",
		"sqlite:///:memory:":                                     "a database in memory would keep nothing",
		"file:/srv/kairos.db?mode=ro":                            "write /srv/kairos.db",
		"file:///srv/kairos.db":                                  "write /srv/kairos.db",
		"mysql://me:swordfish@db/kairos":                         "mysql: is not a database that KAIROS works with",
		"mongodb+srv://me:swordfish@db":                          "mongodb+srv: is not a database",
		"http://localhost:3300":                                  "http: is not a database that KAIROS works with",
		"redis://localhost":                                      "redis: is not a database",
		":memory:":                                               "a database in memory would keep nothing",
		`C:\kairos\kairos.db`:                                    "looks like a path of Windows",
		"~other/kairos.db":                                       "only ~/ is understood",
		"${NO_SUCH_DB}":                                          "the environment variable NO_SUCH_DB is not set",
		"$NO_SUCH_DB/kairos.db":                                  "the environment variable NO_SUCH_DB is not set",
		"${HOME/kairos.db":                                       "is not a variable: write ${NAME}",
		"postgres://me:${NO_SUCH_PASSWORD}@db/kairos":            "the environment variable NO_SUCH_PASSWORD is not set",
		"\"/srv/kairos.db\"":                                     "in quotes",
	} {
		all[text] = nearMiss{text: text, want: want}
	}
	return all
}

// A name that is read is not misspelt.
func TestVariablesThatAreReadAreNotMisspelt(t *testing.T) {
	for _, name := range slices.AppendSeq(slices.Clone(otherVariables), maps.Values(variables)) {
		if errs := Misspelt([]string{name + "=x"}); len(errs) > 0 {
			t.Error(errs)
		}
	}
}
