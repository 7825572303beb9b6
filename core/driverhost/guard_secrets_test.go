package driverhost_test

import (
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

func TestSecretsAreHiddenHoweverTheyArePrinted(t *testing.T) {
	const secret = "pa\"ss <w>\u00fcrd/1"
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("logged", "secret", secret)
	inJSON, err := json.Marshal(secret)
	check(t, err)
	const key = "-----BEGIN KEY-----\nMIIabcdef\nghijklmno\n-----END KEY-----\n"
	for name, tc := range map[string]struct{ text, want string }{
		"plain":              {"it is " + secret + ".", "it is ***."},
		"twice":              {secret + secret, "******"},
		"in JSON":            {`{"k":` + string(inJSON) + `}`, `{"k":"***"}`},
		"quoted":             {"it is " + strconv.Quote(secret), `it is "***"`},
		"in a URL":           {"https://h/?k=pa%22ss+%3Cw%3E%C3%BCrd%2F1", "https://h/?k=***"},
		"in a path":          {"https://h/pa%22ss%20%3Cw%3E%C3%BCrd%2F1", "https://h/***"},
		"cut off":            {"it is " + secret[:8], "it is ***"},
		"cut off in a rune":  {"it is pa\"ss <w>\uFFFD", "it is ***"},
		"one line of many":   {"the key is MIIabcdef", "the key is ***"},
		"a short one":        {"12345 is true", "12345 is true"},
		"another":            {"nothing to hide", "nothing to hide"},
		"shorter and longer": {"abcdefgh abcdef", "*** ***"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := driverhost.Redact(tc.text, secret, key, "12345", "abcdef", "abcdefgh", ""); got != tc.want {
				t.Errorf("Redact(%q) = %q, want %q", tc.text, got, tc.want)
			}
		})
	}
	if got := driverhost.Redact(log.String(), secret); strings.Contains(got, "ss") && !strings.Contains(got, `"secret":"***"`) {
		t.Errorf("Redact = %s", got)
	}
}

func TestSecretsOfADriverAreThoseOfItsEnvironmentAndConfiguration(t *testing.T) {
	t.Setenv("KAIROS_TEST_TOKEN", "from-the-environment")
	t.Setenv("KAIROS_TEST_OTHER", "of-somebody-else")
	got := driverhost.RedactDriver("from-the-environment of-somebody-else marked-one named-one plain-one",
		[]string{"KAIROS_TEST_TOKEN", "KAIROS_TEST_ABSENT"},
		`{"a": "marked-one", "api_key": "named-one", "b": "plain-one"}`,
		`{"properties": {"a": {"writeOnly": true}}}`)
	if want := "*** of-somebody-else *** *** plain-one"; got != want {
		t.Errorf("hide = %q, want %q", got, want)
	}
}

func TestConfigurationIsShownWithoutSecrets(t *testing.T) {
	for name, tc := range map[string]struct{ config, schema, want string }{
		"none":              {``, ``, ``},
		"nothing to hide":   {`{"a":1,"b":[true,null,"x"],"max_tokens":4096,"big":12345678901234567890}`, ``, `{"a":1,"b":[true,null,"x"],"big":12345678901234567890,"max_tokens":4096}`},
		"by name":           {`{"token":"t","clientSecret":"s","Password":"p","apiKey":"k","api-key":"k","empty_token":""}`, ``, `{"Password":"***","api-key":"***","apiKey":"***","clientSecret":"***","empty_token":"","token":"***"}`},
		"below a name":      {`{"credentials":{"user":"u","list":["a"]}}`, ``, `{"credentials":{"list":["***"],"user":"***"}}`},
		"writeOnly":         {`{"pin":1234}`, `{"properties":{"pin":{"writeOnly":true}}}`, `{"pin":"***"}`},
		"format":            {`{"list":[{"x":"s"}]}`, `{"properties":{"list":{"items":{"properties":{"x":{"format":"password"}}}}}}`, `{"list":[{"x":"***"}]}`},
		"by reference":      {`{"x":{"y":"s"}}`, `{"properties":{"x":{"$ref":"#/$defs/x"}},"$defs":{"x":{"allOf":[{"properties":{"y":{"writeOnly":true}}}]}}}`, `{"x":{"y":"***"}}`},
		"by pattern":        {`{"x1":"s","y1":"t"}`, `{"patternProperties":{"^x":{"writeOnly":true}},"additionalProperties":{"format":"password"}}`, `{"x1":"***","y1":"***"}`},
		"an endless schema": {`{"a":{"a":"x"}}`, `{"$ref":"#"}`, `{"a":{"a":"x"}}`},
		"a URL":             {`{"url":"https://me:open@example.org/x"}`, ``, `{"url":"https://me@example.org/x"}`},
		"unreadable":        {`{"token":`, ``, `"***"`},
		"all of it":         {`{"a":1}`, `{"writeOnly":true}`, `"***"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := driverhost.HideSecrets(tc.config, tc.schema); got != tc.want {
				t.Errorf("HideSecrets(%s, %s) = %s, want %s", tc.config, tc.schema, got, tc.want)
			}
		})
	}
}

func FuzzRedactedTextHasNoSecret(f *testing.F) {
	f.Add("it is open sesame", "open sesame", "sesame")
	f.Add("aabbccaabbcc", "aabbcc", "a***bc")
	f.Add("*********", "******", "")
	f.Add("line\nline", "line\nanother", "\xff\xfe\xfd\xfc\xfb\xfa\xf9")
	f.Fuzz(func(t *testing.T, text, a, b string) {
		got := driverhost.Redact(text, a, b)
		for _, secret := range []string{a, b} {
			if utf8.RuneCountInString(secret) > 5 && strings.Contains(got, secret) {
				t.Errorf("Redact(%q) = %q, which contains %q", text, got, secret)
			}
		}
		if again := driverhost.Redact(got, a, b); again != got {
			t.Errorf("Redact(%q) = %q", got, again)
		}
		if !strings.Contains(got, "***") && got != text {
			t.Errorf("Redact(%q) = %q, although nothing is hidden", text, got)
		}
	})
}

func FuzzShownConfigurationHasNoSecret(f *testing.F) {
	f.Add(`{"token":"abc"}`, `{}`)
	f.Add(`{"a":["b"]}`, `{"properties":{"a":{"items":{"writeOnly":true}}}}`)
	f.Add(`[1,{"password":{"x":"y"}}]`, `{"$ref":"#/$ref"}`)
	f.Fuzz(func(t *testing.T, config, schema string) {
		got := driverhost.HideSecrets(config, schema)
		if strings.TrimSpace(got) != "" && !json.Valid([]byte(got)) {
			t.Errorf("HideSecrets(%q, %q) = %q, which is not JSON", config, schema, got)
		}
		key, err := json.Marshal(config)
		if err != nil {
			return
		}
		inside := `{"password":` + string(key) + `}`
		if got := driverhost.HideSecrets(inside, schema); config != "" && got != `{"password":"***"}` && got != `"***"` {
			t.Errorf("HideSecrets(%q, %q) = %q", inside, schema, got)
		}
	})
}
