package statement

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/kairos-mcp/kairos/core/run"
)

// Format is the version of the file's layout.
const Format = "kairos-statement/1"

// MaxSize is how large a file may be, in bytes. To hold a file of small values
// against its one form takes a hundred times as much memory.
const MaxSize = 16 << 20

// file is a statement as it is kept and handed on. It has one form only, the
// canonical JSON (run.Canonical) with or without a line feed behind it, so that
// no other byte of it is free. Canonical JSON itself has none; we write one.
type file struct {
	Format   string        `json:"format"`
	Envelope dsse.Envelope `json:"envelope"`
	// PublicKey that belongs to the signature, as base64.
	PublicKey string `json:"public_key"`
	// Evidence that is disclosed, by step.
	Evidence []Disclosed `json:"evidence,omitempty"`
}

// Sign returns the file of a statement with what stands beside it.
func Sign(ctx context.Context, k Key, s Statement, beside []Disclosed) ([]byte, error) {
	payload, err := canonical(s)
	if err != nil {
		return nil, err
	}
	es, err := dsse.NewEnvelopeSigner(signer{k})
	if err != nil {
		return nil, fmt.Errorf("make an envelope: %w", err)
	}
	envelope, err := es.SignPayload(ctx, payloadType, payload)
	if err != nil {
		return nil, fmt.Errorf("sign the statement: %w", err)
	}
	data, err := file{Format: Format, Envelope: *envelope, PublicKey: k.Public().String(), Evidence: beside}.encode()
	if err == nil && len(data) > MaxSize {
		return nil, fmt.Errorf("the statement has %d bytes, at most %d can be checked again; leave the evidence out", len(data), MaxSize)
	}
	return data, err
}

func (f file) encode() ([]byte, error) {
	b, err := canonical(f)
	return append(b, '\n'), err
}

func canonical(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the statement: %w", err)
	}
	return run.Canonical(b)
}

// parse reads a file. Every byte of it is as encode writes it, or it is refused; only the
// line feed at its end may be missing.
func parse(data []byte) (file, error) {
	var f file
	switch {
	case len(data) == 0:
		return f, errors.New("it is empty")
	case len(data) > MaxSize:
		return f, fmt.Errorf("it has %d bytes, at most %d are read", len(data), MaxSize)
	}
	if err := decodeStrictly(data, &f); err != nil {
		return f, err
	}
	if f.Format != Format {
		return f, fmt.Errorf("its format is %.40q, this program reads %q", f.Format, Format)
	}
	again, err := f.encode()
	if err != nil {
		return f, err
	}
	if at := firstDifference(data, again[:len(again)-1]); at >= 0 && !bytes.Equal(data, again) {
		return f, fmt.Errorf("byte %d is not in canonical form: the file was changed or reformatted", at)
	}
	return f, nil
}

// decodeStrictly reads one JSON document with the keys of v and no others.
func decodeStrictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("it ends after %d bytes in the middle of the JSON", len(data))
	case errors.As(err, &syntax):
		return fmt.Errorf("byte %d: not JSON: %w", syntax.Offset, err)
	case err != nil:
		return fmt.Errorf("not in canonical form: %w", err)
	}
	return nil
}

// firstDifference returns the offset at which two texts differ; negative if they are equal.
func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}

// open checks the signature and returns the signed text.
func (f file) open(ctx context.Context, k PublicKey) ([]byte, error) {
	if len(f.Envelope.Signatures) != 1 {
		return nil, fmt.Errorf("it has %d signatures, not one", len(f.Envelope.Signatures))
	}
	if f.Envelope.PayloadType != payloadType {
		return nil, fmt.Errorf("it is over a text of type %.60q, not %s", f.Envelope.PayloadType, payloadType)
	}
	sig := f.Envelope.Signatures[0]
	if sig.KeyID != k.ID() {
		return nil, fmt.Errorf("it is of the key %.64s, not of %s", sig.KeyID, k.ID())
	}
	for _, text := range []string{f.Envelope.Payload, sig.Sig} {
		if b, err := base64.StdEncoding.DecodeString(text); err != nil || base64.StdEncoding.EncodeToString(b) != text {
			return nil, errors.New("it is not standard base64")
		}
	}
	ev, err := dsse.NewEnvelopeVerifier(verifier{k})
	if err != nil {
		return nil, fmt.Errorf("open the envelope: %w", err)
	}
	if _, err := ev.Verify(ctx, &f.Envelope); err != nil {
		return nil, errors.New("it is not of this key over this text: the text, the signature or the key was changed")
	}
	return f.payload()
}

func (f file) payload() ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(f.Envelope.Payload)
	if err != nil {
		return nil, fmt.Errorf("the signed text is not base64: %w", err)
	}
	return b, nil
}
