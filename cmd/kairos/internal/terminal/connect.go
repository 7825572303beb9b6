package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// errRefused: the person refused a sampling request, or the work itself.
var errRefused = errors.New("the person refused")

// userRejected is the code by which a client says that the person refused.
const userRejected = -1

// child is a stdio server to start.
type child struct {
	argv    []string
	env     []string // added to the environment of this process
	log     io.Writer
	version string // of MCP; "" means the newest that both speak
	options []client.ClientOption
	elicits *mcp.ElicitationCapability // nil: what the options say
}

// connect starts the server and shakes hands. Close of the client stops it.
func connect(ctx context.Context, c child) (*client.Client, error) {
	stdio := transport.NewStdioWithOptions(c.argv[0], c.env, c.argv[1:],
		transport.WithCommandFunc(command), transport.WithCommandStderrWriter(orDiscard(c.log)))
	options := c.options
	if c.version != "" {
		options = append(options, client.WithProtocolVersion(c.version))
	}
	cl := client.NewClient(refusing{stdio}, options...)
	if err := cl.Start(ctx); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.argv[0], err)
	}
	var init mcp.InitializeRequest
	init.Params.ProtocolVersion = c.version
	init.Params.Capabilities.Elicitation = c.elicits
	init.Params.ClientInfo = mcp.Implementation{Name: "kairos-run", Version: "0.1.0"}
	if _, err := cl.Initialize(ctx, init); err != nil {
		if ctx.Err() == nil && hasEnded(err) {
			return nil, errors.Join(fmt.Errorf("%s did not start; what it wrote to standard error says why", c.argv[0]), closeClient(cl))
		}
		return nil, errors.Join(fmt.Errorf("initialize %s: %w", c.argv[0], cause(ctx, err)), closeClient(cl))
	}
	if c.version != "" && cl.ProtocolVersion() != c.version {
		return nil, errors.Join(
			fmt.Errorf("%s speaks MCP %s, not %s", c.argv[0], cl.ProtocolVersion(), c.version), closeClient(cl))
	}
	return cl, nil
}

// hasEnded reports whether a call failed because the server has ended: before it
// read the request, or before it answered.
func hasEnded(err error) bool {
	return errors.Is(err, transport.ErrTransportClosed) || errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed)
}

// command makes the server's process: without our secrets, and in a group of
// its own, so that an interrupt at the terminal reaches only us.
func command(ctx context.Context, name string, env, args []string) (*exec.Cmd, error) {
	// The end of ctx must not kill it: closing its input lets it finish.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...)
	cmd.Env = append(Environment(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

// Environment is ours without the model's key.
func Environment() []string {
	var kept []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, KeyEnv+"=") {
			kept = append(kept, entry)
		}
	}
	return kept
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// closeClient stops a server. How it exited after its input closed is its own
// affair.
func closeClient(c *client.Client) error {
	var exit *exec.ExitError
	if err := c.Close(); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("stop server: %w", err)
	}
	return nil
}

// cause is why the context ended, if it did, else the error.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// refusing is a stdio connection that tells the server of a refusal with the
// code meant for it; mcp-go alone makes every error of a handler an internal one.
type refusing struct{ *transport.Stdio }

// SetRequestHandler wraps the handler.
func (r refusing) SetRequestHandler(handle transport.RequestHandler) {
	r.Stdio.SetRequestHandler(func(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		res, err := handle(ctx, req)
		if errors.Is(err, errRefused) {
			return transport.NewJSONRPCErrorResponse(req.ID, userRejected, "User rejected the request", nil), nil
		}
		return res, err
	})
}
