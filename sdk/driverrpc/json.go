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

// The JSON forms are held to the wire's rules by taking them through the
// wire's own converters, so that both transports take and refuse the same.

func jsonDescriptor(c *conversion, d driver.Descriptor) driver.Descriptor {
	absent(&d.ConfigSchema)
	return fromDescriptor(c, toDescriptor(c, d))
}

func jsonConfigureResult(c *conversion, r ConfigureResult) []driver.Diagnostic {
	return fromDiagnostics(c, toDiagnostics(c, r.Diagnostics))
}

func jsonValidateResult(c *conversion, r driver.ValidateResult) driver.ValidateResult {
	absent(&r.Challenge)
	return fromValidateResult(c, toValidateResult(c, r))
}

func jsonAdvanceResult(c *conversion, r driver.AdvanceResult) driver.AdvanceResult {
	absent(&r.State.Data)
	if r.Accepted != nil {
		absent(&r.Accepted.Proof, &r.Accepted.Output)
	}
	for i := range r.NeedInput {
		absent(&r.NeedInput[i].Schema, &r.NeedInput[i].Display, &r.NeedInput[i].Action)
	}
	return fromAdvanceResult(c, toAdvanceResult(c, r))
}

func jsonRenderResult(c *conversion, r driver.RenderResult) driver.RenderResult {
	if r.ClientRequest != nil {
		absent(&r.ClientRequest.Params)
	}
	if r.AgentChallenge != nil {
		absent(&r.AgentChallenge.Display)
	}
	return fromRenderResult(c, toRenderResult(c, r))
}

func jsonInterpretResult(c *conversion, r driver.InterpretResult) driver.InterpretResult {
	return fromInterpretResult(c, toInterpretResult(c, r))
}

func jsonValidateRequest(c *conversion, r driver.ValidateRequest) driver.ValidateRequest {
	return r // one document, and the wire does not look inside
}

func jsonAdvanceRequest(c *conversion, r driver.AdvanceRequest) driver.AdvanceRequest {
	absent(&r.State.Data, &r.Client.Capabilities)
	return fromAdvanceRequest(c, toAdvanceRequest(c, r))
}

func jsonRenderRequest(c *conversion, r driver.RenderRequest) driver.RenderRequest {
	absent(&r.Input.Schema, &r.Input.Display, &r.Input.Action, &r.Client.Capabilities, &r.Plan)
	return fromRenderRequest(c, toRenderRequest(c, r))
}

func jsonInterpretRequest(c *conversion, r driver.InterpretRequest) driver.InterpretRequest {
	absent(&r.Input.Schema, &r.Input.Display, &r.Input.Action, &r.Client.Capabilities)
	return fromInterpretRequest(c, toInterpretRequest(c, r))
}
