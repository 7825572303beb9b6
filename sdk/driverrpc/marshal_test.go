package driverrpc_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

func TestMarshalledResultsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkMarshalled(t, drawAdvanceResult(t))
		checkMarshalled(t, drawRenderResult(t))
	})
}

func checkMarshalled[T any](t *rapid.T, want T) {
	b := marshalled(t, want)
	var got T
	if err := driverrpc.Unmarshal(b, &got); err != nil {
		t.Fatalf("Unmarshal(Marshal(%T)) = %v, want nil", want, err)
	}
	clear(b) // the result must not share the bytes
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Unmarshal(Marshal(%T)) (-want +got):\n%s", want, diff)
	}
}

func marshalled(t *rapid.T, message any) []byte {
	b, err := driverrpc.Marshal(message)
	if err != nil {
		t.Fatalf("Marshal(%+v) = %v, want nil", message, err)
	}
	return b
}

func TestRequestsThatDifferHaveOtherBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, other := drawAdvanceRequest(t), drawAdvanceRequest(t)
		if got, want := bytes.Equal(marshalled(t, one), marshalled(t, other)), cmp.Equal(one, other); got != want {
			t.Errorf("%+v and %+v have equal bytes: %t, want %t", one, other, got, want)
		}
		again := one
		again.Round++
		if bytes.Equal(marshalled(t, one), marshalled(t, again)) {
			t.Errorf("%+v has the same bytes in another round", one)
		}
		if !bytes.Equal(marshalled(t, one), marshalled(t, one)) {
			t.Errorf("%+v has other bytes the second time", one)
		}
	})
}

func TestWhatCannotBeMarshalledIsAnError(t *testing.T) {
	for name, message := range map[string]any{
		"another type":       driver.Descriptor{},
		"a pointer":          &driver.AdvanceRequest{},
		"no outcome":         driver.AdvanceResult{},
		"a negative round":   driver.AdvanceRequest{Round: -1},
		"text that is bytes": driver.AdvanceRequest{IdempotencyKey: "\xff"},
	} {
		if b, err := driverrpc.Marshal(message); err == nil {
			t.Errorf("Marshal of %s = %x, want an error", name, b)
		}
	}
	var res driver.AdvanceResult
	if err := driverrpc.Unmarshal([]byte("\xff"), &res); err == nil {
		t.Error("Unmarshal takes bytes that are not a message")
	}
	if err := driverrpc.Unmarshal(nil, res); err == nil {
		t.Error("Unmarshal takes a result that is not a pointer")
	}
}
