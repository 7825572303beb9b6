package pack_test

import (
	"bytes"
	"encoding/base64"
	"testing"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/store/pack"
)

func TestEveryDocumentComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]pack.Kind{pack.Save, pack.Protocol}).Draw(t, "kind")
		document := rapid.SliceOf(rapid.Byte()).Draw(t, "document")
		got, err := pack.Unpack(pack.Pack(kind, document))
		if err != nil || !bytes.Equal(got, document) {
			t.Fatalf("Unpack(Pack(%q)) = %q, %v, want the same", document, got, err)
		}
	})
}

// TestADictionaryStays: what is packed with a dictionary can be read only with the
// same one, and databases hold what was packed with each.
func TestADictionaryStays(t *testing.T) {
	const document = `{"events":[{"kind":"needed","run":"r","step":2,"driver_state":{}}],"title":"Two commands","steps":[]}`
	for kind, packed := range map[pack.Kind]string{
		pack.Save:     "KLUv/QUAAd0BAFQBe3J9XSwiOiJUd29zImVwcyI6W119CwAgYMlZSbkUdYxtuSH5BvAt8+stlwB3NYCfZmggHPC2w7kCAG8qyA==",
		pack.Protocol: "KLUv/QUAAh0CALQCe2tpbmQiOiIiLCJydW4iOiJyIjoyLCJkcml2ZXJfc3RhdGUiOnt9fV1dfQYAoKlWMHMObCp+HLKYhe34A44hXAEAbyrI",
	} {
		raw, err := base64.StdEncoding.DecodeString(packed)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := pack.Unpack(raw); err != nil || string(got) != document {
			t.Errorf("Unpack(a document of kind %d) = %q, %v, want %q", kind, got, err, document)
		}
	}
}

func TestADamagedDocumentIsAnError(t *testing.T) {
	document := []byte(`{"events":[{"kind":"needed","step":2}]}`)
	packed := pack.Pack(pack.Save, document)
	for i := range packed {
		damaged := bytes.Clone(packed)
		damaged[i] ^= 0x10
		if got, err := pack.Unpack(damaged); err == nil && !bytes.Equal(got, document) {
			t.Errorf("Unpack(changed at byte %d) = %q, nil, want an error", i, got)
		}
	}
	for n := range packed {
		if got, err := pack.Unpack(packed[:n]); err == nil {
			t.Errorf("Unpack(the first %d bytes) = %q, nil, want an error", n, got)
		}
	}
}
