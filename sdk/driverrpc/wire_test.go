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
	ctx := context.Background()
	advance := func(c *driverrpc.Client) error {
		_, err := c.Challenge().Advance(ctx, driver.AdvanceRequest{})
		return err
	}
	interpret := func(c *driverrpc.Client) error {
		_, err := c.Capability().Interpret(ctx, driver.InterpretRequest{})
		return err
	}
	for name, tc := range map[string]struct {
		reply proto.Message
		call  func(*driverrpc.Client) error
	}{
		"unknown role": {
			&driverpb.DescribeResponse{Name: "a", Version: "1.0.0", Role: 77, Handles: []string{"a"}, Effect: 1},
			func(c *driverrpc.Client) error { _, err := c.Describe(ctx); return err },
		},
		"unsound descriptor": {
			&driverpb.DescribeResponse{Name: "A B", Version: "1.0.0", Role: 1, Handles: []string{"a"}, Effect: 1},
			func(c *driverrpc.Client) error { _, err := c.Describe(ctx); return err },
		},
		"unknown severity": {
			&driverpb.ConfigureResponse{Diagnostics: []*driverpb.Diagnostic{{Severity: 9}}},
			func(c *driverrpc.Client) error { _, err := c.Configure(ctx, nil, false); return err },
		},
		"unknown escaping": {
			&driverpb.ValidateResponse{Templates: []*driverpb.Template{{Escaping: 9}}},
			func(c *driverrpc.Client) error {
				_, err := c.Challenge().Validate(ctx, driver.ValidateRequest{})
				return err
			},
		},
		"no outcome": {&driverpb.AdvanceResponse{}, advance},
		"no inputs needed": {
			&driverpb.AdvanceResponse{Outcome: &driverpb.AdvanceResponse_NeedInput{NeedInput: &driverpb.NeedInput{}}}, advance,
		},
		"unknown approval": {&driverpb.AdvanceResponse{Outcome: &driverpb.AdvanceResponse_NeedInput{
			NeedInput: &driverpb.NeedInput{Inputs: []*driverpb.Input{{Approval: 9}}},
		}}, advance},
		"unknown provenance": {
			&driverpb.InterpretResponse{Outcome: &driverpb.InterpretResponse_Answer{Answer: &driverpb.Answer{Provenance: 9}}},
			interpret,
		},
		"provenance left out": {
			&driverpb.InterpretResponse{Outcome: &driverpb.InterpretResponse_Answer{Answer: &driverpb.Answer{}}}, interpret,
		},
		"unhealthy": {
			&driverpb.CheckHealthResponse{Reason: "asleep"},
			func(c *driverrpc.Client) error { return c.CheckHealth(ctx) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := proto.Marshal(tc.reply)
			if err != nil {
				t.Fatal(err)
			}
			if err := tc.call(driverrpc.NewClient(canned(raw))); err == nil {
				t.Error("it was taken")
			}
		})
	}
}

// FuzzReplies feeds any bytes as a driver's reply: an error or a sound result,
// never a panic.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0x00})
	f.Add([]byte{0x12, 0x04, 0x0a, 0x02, '{', '}'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		ctx, c := context.Background(), driverrpc.NewClient(canned(raw))
		if d, err := c.Describe(ctx); err == nil && driverrpc.CheckDescriptor(d) != nil {
			t.Errorf("Describe took %+v", d)
		}
		_, _ = c.Configure(ctx, nil, true)
		_, _ = c.Challenge().Validate(ctx, driver.ValidateRequest{})
		_, _ = c.Capability().Render(ctx, driver.RenderRequest{})
		r, err := c.Challenge().Advance(ctx, driver.AdvanceRequest{})
		if err == nil && len(r.NeedInput) == 0 && r.Accepted == nil && r.Rejected == nil && r.Declined == nil &&
			r.Unavailable == nil {
			t.Errorf("Advance without an outcome from %x", raw)
		}
		i, err := c.Capability().Interpret(ctx, driver.InterpretRequest{})
		if err == nil && i.Answer == nil && i.Declined == nil && i.Invalid == nil && i.Unavailable == nil && i.Missing == nil &&
			i.Dismissed == nil {
			t.Errorf("Interpret without an outcome from %x", raw)
		}
	})
}
