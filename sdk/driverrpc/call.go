package driverrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// methodsOf lists the methods of a role's drivers.
func methodsOf(role driver.Role) []string {
	base := []string{MethodDescribe, MethodConfigure, MethodCheckHealth}
	if role == driver.RoleChallenge {
		return append(base, MethodValidate, MethodAdvance)
	}
	return append(base, MethodRender, MethodInterpret, MethodPreview)
}

// callOnce answers the one call of a process.
func callOnce(d driver.Driver, log *slog.Logger, method string, stdin io.Reader, stdout io.Writer) error {
	request, err := io.ReadAll(io.LimitReader(stdin, MaxMessageBytes+1))
	if err != nil {
		return fmt.Errorf("read the request from stdin: %w", err)
	}
	if len(request) > MaxMessageBytes {
		return fmt.Errorf("the request is larger than %d bytes", MaxMessageBytes)
	}
	ctx := driver.WithTrace(context.Background(), os.Getenv(TraceEnv))
	result, err := answer(ctx, d, log, method, request)
	if err != nil {
		if s, ok := status.FromError(err); ok { // the code means nothing outside gRPC
			err = errors.New(s.Message())
		}
		return fmt.Errorf("%s: %w", method, err)
	}
	printed, err := marshalJSON(result)
	if err != nil {
		return fmt.Errorf("%s: the result is not JSON: %w", method, err)
	}
	if len(printed) > MaxMessageBytes {
		return fmt.Errorf("%s: the result is larger than %d bytes", method, MaxMessageBytes)
	}
	if _, err := stdout.Write(printed); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// answer gives the JSON form of the result of one call.
func answer(
	ctx context.Context, d driver.Driver, log *slog.Logger, method string, request []byte,
) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, panicked(ctx, log, method, p)
		}
	}()
	conf := configurerOf(d)
	switch method {
	case MethodDescribe:
		return d.Descriptor, nil
	case MethodConfigure:
		return answerConfigure(ctx, conf, request)
	}
	if err := applyConfig(ctx, conf, os.Getenv(ConfigEnv)); err != nil {
		return nil, err
	}
	switch {
	case method == MethodCheckHealth:
		return health(ctx, conf), nil
	case method == MethodValidate && d.Challenge != nil:
		return validate.answer(ctx, request, d.Challenge.Validate)
	case method == MethodAdvance && d.Challenge != nil:
		return advance.answer(ctx, request, d.Challenge.Advance)
	case method == MethodRender && d.Capability != nil:
		return render.answer(ctx, request, d.Capability.Render)
	case method == MethodInterpret && d.Capability != nil:
		return interpret.answer(ctx, request, d.Capability.Interpret)
	case method == MethodPreview && d.Capability != nil:
		return preview.answer(ctx, request, previewer(d.Capability))
	}
	return nil, fmt.Errorf("driver %s has the role %s, its methods are %s",
		d.Descriptor.Name, d.Descriptor.Role, strings.Join(methodsOf(d.Descriptor.Role), ", "))
}

var codePattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// soundCode reports a malformed error code, which the wire itself would carry.
func soundCode(result any) error {
	if r, ok := result.(driver.AdvanceResult); ok && r.Rejected != nil && !codePattern.MatchString(r.Rejected.Code) {
		return fmt.Errorf("the result breaks the contract: error_code %q does not match %s", r.Rejected.Code, codePattern)
	}
	return nil
}

func readRequest[Req any](raw []byte) (Req, error) {
	var req Req
	if err := unmarshalJSON(raw, &req); err != nil {
		return req, fmt.Errorf("the request: %s", jsonProblem(err))
	}
	return req, nil
}

func answerConfigure(ctx context.Context, conf driver.Configurer, raw []byte) (any, error) {
	req, err := readRequest[ConfigureRequest](raw)
	if err != nil {
		return nil, err
	}
	found, err := configure(ctx, conf, req.Config, req.DryRun)
	if err != nil {
		return nil, err
	}
	found, err = converted(codes.Internal, ConfigureResult{Diagnostics: found}, jsonConfigureResult)
	return ConfigureResult{Diagnostics: found}, err
}

// applyConfig does what the host does with a process that lives on: it
// configures the driver before its first call.
func applyConfig(ctx context.Context, conf driver.Configurer, config string) error {
	if config != "" && !json.Valid([]byte(config)) {
		return fmt.Errorf("%s is not JSON", ConfigEnv)
	}
	found, err := configure(ctx, conf, fromBytes([]byte(config)), false)
	if err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	var problems []string
	for _, f := range found {
		if f.Severity == driver.SeverityError {
			problems = append(problems, strings.TrimPrefix(f.Pointer+": "+f.Message, ": "))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("the configuration in %s is refused: %s", ConfigEnv, strings.Join(problems, "; "))
	}
	return nil
}

func health(ctx context.Context, conf driver.Configurer) Health {
	if conf == nil {
		return Health{Healthy: true}
	}
	if sick := conf.CheckHealth(ctx); sick != nil {
		return Health{Reason: sick.Error()}
	}
	return Health{Healthy: true}
}
