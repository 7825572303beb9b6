package driverrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// marshalJSON gives the JSON form of a message, on one line.
func marshalJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// unmarshalJSON reads the JSON form of a message: exactly one object, in
// UTF-8, no key of it twice. Keys that v does not know are ignored.
func unmarshalJSON(raw []byte, v any) error {
	if !utf8.Valid(raw) {
		return errors.New("it is not UTF-8")
	}
	if err := checkKeys(raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// checkKeys refuses what encoding/json would let pass: a key given twice, of
// which the last one would win, so that two outcomes would look like one.
func checkKeys(raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	first, err := dec.Token()
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty, want one JSON object")
	}
	if err != nil {
		return err
	}
	if first != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		folded := strings.ToLower(key) // encoding/json takes keys in any case
		if seen[folded] {
			return fmt.Errorf("key %q is given twice", key)
		}
		seen[folded] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
	}
	_, err = dec.Token() // its end; json.Unmarshal sees what is behind it
	return err
}

// absent makes the null of a document that may be left out a left out one.
func absent(documents ...*json.RawMessage) {
	for _, d := range documents {
		if string(*d) == "null" {
			*d = nil
		}
	}
}

func jsonDescriptor(c *conversion, d driver.Descriptor) driver.Descriptor {
	absent(&d.ConfigSchema, &d.ActionSchema, &d.ParamsSchema, &d.OutputSchema)
	return fromDescriptor(c, toDescriptor(c, d))
}

func jsonConfigureResult(c *conversion, r ConfigureResult) []driver.Diagnostic {
	return fromDiagnostics(c, toDiagnostics(c, r.Diagnostics))
}
