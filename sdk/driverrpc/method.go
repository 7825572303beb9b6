package driverrpc

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverpb"
)

// method is a method of a role: how its messages look on the wire. Both transports are
// held to it: the JSON form of a message is taken through the wire's own converters, so
// that both take and refuse the same.
type method[Req, WireReq, Res, WireRes any] struct {
	name        string
	toRequest   func(*conversion, Req) *WireReq
	fromRequest func(*conversion, *WireReq) Req
	toResult    func(*conversion, Res) *WireRes
	fromResult  func(*conversion, *WireRes) Res
	// The documents of a message that may be left out, for which JSON may say null.
	requestDocuments func(*Req) []*json.RawMessage
	resultDocuments  func(*Res) []*json.RawMessage
}

var (
	validate = method[driver.ValidateRequest, driverpb.ValidateRequest, driver.ValidateResult, driverpb.ValidateResponse]{
		MethodValidate, toValidateRequest, fromValidateRequest, toValidateResult, fromValidateResult,
		func(*driver.ValidateRequest) []*json.RawMessage { return nil },
		func(r *driver.ValidateResult) []*json.RawMessage { return []*json.RawMessage{&r.Challenge, &r.Action} },
	}
	advance = method[driver.AdvanceRequest, driverpb.AdvanceRequest, driver.AdvanceResult, driverpb.AdvanceResponse]{
		MethodAdvance, toAdvanceRequest, fromAdvanceRequest, toAdvanceResult, fromAdvanceResult,
		func(r *driver.AdvanceRequest) []*json.RawMessage {
			return []*json.RawMessage{&r.State.Data, &r.Client.Capabilities}
		},
		advanceDocuments,
	}
	render = method[driver.RenderRequest, driverpb.RenderRequest, driver.RenderResult, driverpb.RenderResponse]{
		MethodRender, toRenderRequest, fromRenderRequest, toRenderResult, fromRenderResult,
		func(r *driver.RenderRequest) []*json.RawMessage {
			return append(inputDocuments(&r.Input), &r.Client.Capabilities, &r.Plan)
		},
		renderDocuments,
	}
	interpret = method[driver.InterpretRequest, driverpb.InterpretRequest, driver.InterpretResult, driverpb.InterpretResponse]{
		MethodInterpret, toInterpretRequest, fromInterpretRequest, toInterpretResult, fromInterpretResult,
		func(r *driver.InterpretRequest) []*json.RawMessage {
			return append(inputDocuments(&r.Input), &r.Client.Capabilities)
		},
		func(*driver.InterpretResult) []*json.RawMessage { return nil },
	}
	preview = method[driver.PreviewRequest, driverpb.PreviewRequest, driver.PreviewResult, driverpb.PreviewResponse]{
		MethodPreview, toPreviewRequest, fromPreviewRequest, toPreviewResult, fromPreviewResult,
		func(r *driver.PreviewRequest) []*json.RawMessage {
			return append(inputDocuments(&r.Input), &r.Client.Capabilities, &r.Proposal)
		},
		previewDocuments,
	}
)

func inputDocuments(in *driver.Input) []*json.RawMessage {
	return []*json.RawMessage{&in.Schema, &in.Display, &in.Action}
}

func advanceDocuments(r *driver.AdvanceResult) []*json.RawMessage {
	all := []*json.RawMessage{&r.State.Data}
	if r.Accepted != nil {
		all = append(all, &r.Accepted.Proof, &r.Accepted.Output)
	}
	for i := range r.NeedInput {
		all = append(all, inputDocuments(&r.NeedInput[i])...)
	}
	return all
}

func renderDocuments(r *driver.RenderResult) (all []*json.RawMessage) {
	if r.ClientRequest != nil {
		all = append(all, &r.ClientRequest.Params)
	}
	if r.AgentChallenge != nil {
		all = append(all, &r.AgentChallenge.Display)
	}
	return all
}

func previewDocuments(r *driver.PreviewResult) (all []*json.RawMessage) {
	if r.Plan != nil {
		all = append(all, &r.Plan.Data, &r.Plan.Action)
	}
	if r.Propose != nil {
		all = append(all, &r.Propose.Schema)
	}
	return all
}

// overGRPC makes a call of a client.
func (m method[Req, WireReq, Res, WireRes]) overGRPC(
	ctx context.Context, req Req, call func(context.Context, *WireReq, ...grpc.CallOption) (*WireRes, error),
) (res Res, err error) {
	in, err := converted(codes.InvalidArgument, req, m.toRequest)
	if err != nil {
		return res, err
	}
	out, err := call(ctx, in)
	if err != nil {
		return res, err
	}
	return converted(codes.Internal, out, m.fromResult)
}

// overExec makes a call of a client for which there is a process.
func (m method[Req, WireReq, Res, WireRes]) overExec(ctx context.Context, req Req, run runFunc) (res Res, err error) {
	if _, err := converted(codes.InvalidArgument, req, m.toRequest); err != nil {
		return res, err
	}
	return execCall(ctx, run, m.name, req, m.jsonResult)
}

// serve answers a call over gRPC.
func (m method[Req, WireReq, Res, WireRes]) serve(
	ctx context.Context, req *WireReq, impl func(context.Context, Req) (Res, error),
) (*WireRes, error) {
	in, err := converted(codes.InvalidArgument, req, m.fromRequest)
	if err != nil {
		return nil, err
	}
	out, err := impl(ctx, in)
	if err != nil {
		return nil, callError(ctx, err)
	}
	return converted(codes.Internal, out, m.toResult)
}

// answer answers the call of a process.
func (m method[Req, WireReq, Res, WireRes]) answer(
	ctx context.Context, raw []byte, impl func(context.Context, Req) (Res, error),
) (any, error) {
	req, err := readRequest[Req](raw)
	if err != nil {
		return nil, err
	}
	absent(m.requestDocuments(&req)...)
	in, err := converted(codes.InvalidArgument, req, m.toRequest)
	if err != nil {
		return nil, err
	}
	if req, err = converted(codes.InvalidArgument, in, m.fromRequest); err != nil {
		return nil, err
	}
	res, err := impl(ctx, req)
	if err == nil {
		err = soundCode(res)
	}
	if err != nil {
		return nil, err
	}
	return converted(codes.Internal, res, m.jsonResult)
}

func (m method[Req, WireReq, Res, WireRes]) jsonResult(c *conversion, res Res) Res {
	absent(m.resultDocuments(&res)...)
	return m.fromResult(c, m.toResult(c, res))
}

// converted converts a message. The code says whose mistake it is that it does not
// convert: InvalidArgument that of the caller, Internal that of the driver.
func converted[From, To any](code codes.Code, message From, convert func(*conversion, From) To) (To, error) {
	var conv conversion
	out := convert(&conv, message)
	if conv.err != nil {
		var none To
		return none, status.Error(code, conv.err.Error())
	}
	return out, nil
}
