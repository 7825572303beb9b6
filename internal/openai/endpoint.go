package openai

import (
	"errors"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
)

// Secret is a text that is never printed.
type Secret string

const hidden = "(hidden)"

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// CheckURL says why a URL cannot be asked, without repeating it: it may hold a password.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("is not a URL; write it like http://127.0.0.1:8080/v1")
	case u.User != nil:
		return errors.New("holds a name or password; give the key by the setting for it")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("has a query or fragment, which an OpenAI-compatible endpoint does not know; give the key by the setting for it")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("must begin with http:// or https:// and name a host")
	}
	return nil
}

var versioned = regexp.MustCompile(`/v[0-9]+$`)

// Versioned is a URL that CheckURL accepts, with /v1 if it has no version.
func Versioned(raw string) string {
	raw = strings.TrimRight(raw, "/")
	for _, path := range []string{"/embeddings", "/chat/completions"} {
		raw = strings.TrimSuffix(raw, path)
	}
	if !versioned.MatchString(raw) {
		raw += "/v1"
	}
	return raw
}
