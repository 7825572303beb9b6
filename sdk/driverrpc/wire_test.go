package driverrpc_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverpb"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// canned is a connection to a driver that answers every call with the same bytes.
type canned []byte

func (c canned) Invoke(_ context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	return proto.Unmarshal(c, reply.(proto.Message))
}

func (c canned) NewStream(
	context.Context, *grpc.StreamDesc, string, ...grpc.CallOption,
) (grpc.ClientStream, error) {
	panic("no call of the contract streams")
}

func TestRepliesThatDoNotFitTheContractAreErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		reply  proto.Message
	}{
		"unknown role": {
			driverrpc.MethodDescribe, &driverpb.DescribeResponse{Name: "a", Version: "1.0.0", Role: 77, Handles: []string{"a"}, Effect: 1},
		},
		"unsound descriptor": {
			driverrpc.MethodDescribe, &driverpb.DescribeResponse{Name: "A B", Version: "1.0.0", Role: 1, Handles: []string{"a"}, Effect: 1},
		},
		"unknown severity": {
			driverrpc.MethodConfigure, &driverpb.ConfigureResponse{Diagnostics: []*driverpb.Diagnostic{{Severity: 9}}},
		},
		"unknown escaping": {
			driverrpc.MethodValidate, &driverpb.ValidateResponse{Templates: []*driverpb.Template{{Escaping: 9}}},
		},
		"no outcome":          {driverrpc.MethodAdvance, &driverpb.AdvanceResponse{}},
		"no inputs needed":    {driverrpc.MethodAdvance, needing()},
		"unknown approval":    {driverrpc.MethodAdvance, needing(&driverpb.Input{Approval: 9})},
		"unknown provenance":  {driverrpc.MethodInterpret, answering(&driverpb.Answer{Provenance: 9})},
		"provenance left out": {driverrpc.MethodInterpret, answering(&driverpb.Answer{})},
		"unhealthy":           {driverrpc.MethodCheckHealth, &driverpb.CheckHealthResponse{Reason: "asleep"}},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := proto.Marshal(tc.reply)
			if err != nil {
				t.Fatal(err)
			}
			if err := callBy(t.Context(), driverrpc.NewClient(canned(raw)), tc.method); err == nil {
				t.Error("it was taken")
			}
		})
	}
}

func needing(inputs ...*driverpb.Input) proto.Message {
	return &driverpb.AdvanceResponse{Outcome: &driverpb.AdvanceResponse_NeedInput{NeedInput: &driverpb.NeedInput{Inputs: inputs}}}
}

func answering(a *driverpb.Answer) proto.Message {
	return &driverpb.InterpretResponse{Outcome: &driverpb.InterpretResponse_Answer{Answer: a}}
}

// FuzzReplies feeds any bytes as a driver's reply: an error or a sound result,
// never a panic.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0x00})
	f.Add([]byte{0x12, 0x04, 0x0a, 0x02, '{', '}'})
	f.Fuzz(func(t *testing.T, raw []byte) { checkReplies(t, driverrpc.NewClient(canned(raw))) })
}

// checkReplies makes every call of a driver that may reply anything.
func checkReplies(t *testing.T, c driverrpc.Calls) {
	t.Helper()
	ctx := context.Background()
	if d, err := c.Describe(ctx); err == nil && driverrpc.CheckDescriptor(d) != nil {
		t.Errorf("Describe took %+v", d)
	}
	_, _ = c.Configure(ctx, nil, true)
	_, _ = c.Challenge().Validate(ctx, driver.ValidateRequest{})
	if r, err := c.Challenge().Advance(ctx, driver.AdvanceRequest{}); err == nil {
		if n := outcomes(len(r.NeedInput) > 0, r.Accepted != nil, r.Rejected != nil, r.Declined != nil, r.Unavailable != nil,
			r.Pending != nil, r.Unknown != nil, r.NotDone != nil); n != 1 {
			t.Errorf("Advance has %d outcomes: %+v", n, r)
		}
	}
	if r, err := c.Capability().Render(ctx, driver.RenderRequest{}); err == nil {
		if n := outcomes(r.ClientRequest != nil, r.AgentChallenge != nil, r.Answer != nil, r.Unavailable != nil, r.ClientReview != nil,
			r.Invalid != nil, r.Elsewhere != nil, r.Pending != nil, r.Unknown != nil, r.NotDone != nil); n != 1 {
			t.Errorf("Render has %d outcomes: %+v", n, r)
		}
	}
	if r, err := c.Capability().Interpret(ctx, driver.InterpretRequest{}); err == nil {
		if n := outcomes(r.Answer != nil, r.Declined != nil, r.Invalid != nil, r.Unavailable != nil, r.Missing != nil, r.Dismissed != nil); n != 1 {
			t.Errorf("Interpret has %d outcomes: %+v", n, r)
		}
	}
}

func outcomes(set ...bool) int {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	return n
}
