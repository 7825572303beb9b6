// Package hidden has texts that are never printed.
package hidden

import "log/slog"

// Text is a secret. It does not show itself in logs, errors and encoded values.
type Text string

// Mark stands where a secret stood.
const Mark = "(hidden)"

// String hides the secret.
func (t Text) String() string {
	if t == "" {
		return ""
	}
	return Mark
}

// GoString implements fmt.GoStringer.
func (t Text) GoString() string { return t.String() }

// LogValue implements slog.LogValuer.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText implements encoding.TextMarshaler.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Reveal returns the text, where it has to be shown or sent.
func (t Text) Reveal() string { return string(t) }
