package connect

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// tools starts or reaches the server as the client would, and lists its tools.
// What the server logs goes to log.
func tools(ctx context.Context, e entry, version string, log io.Writer) (names []string, err error) {
	cl, err := dial(ctx, e, log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cl.Close() }() // it was only asked
	var init mcp.InitializeRequest
	init.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	init.Params.ClientInfo = mcp.Implementation{Name: "kairos-connect", Version: version}
	if _, err := cl.Initialize(ctx, init); err != nil {
		return nil, fmt.Errorf("the server does not answer: %w", err)
	}
	listed, err := cl.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, fmt.Errorf("the server does not list its tools: %w", err)
	}
	for _, t := range listed.Tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names, nil
}

func dial(ctx context.Context, e entry, log io.Writer) (*mcpclient.Client, error) {
	if start, ok := e.started(); ok {
		stdio := transport.NewStdioWithOptions(start.program, assignments(start.env), start.args,
			transport.WithCommandFunc(clean), transport.WithCommandStderrWriter(log))
		cl := mcpclient.NewClient(stdio)
		if err := cl.Start(ctx); err != nil {
			return nil, fmt.Errorf("start %s: %w", start.program, err)
		}
		return cl, nil
	}
	cl, err := mcpclient.NewStreamableHttpClient(e.address())
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", e.address(), err)
	}
	if err := cl.Start(ctx); err != nil {
		return nil, fmt.Errorf("reach %s: %w", e.address(), err)
	}
	return cl, nil
}

func assignments(env map[string]string) (out []string) {
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	return out
}

// inherited are the variables that the MCP SDKs pass on to servers. What else
// this shell has, a client may not have.
var inherited = []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "APPDATA", "LOCALAPPDATA", "SYSTEMROOT", "TEMP", "USERPROFILE"}

// clean makes the server's process with the environment that clients give it.
func clean(ctx context.Context, name string, env, args []string) (*exec.Cmd, error) {
	// The end of ctx must not kill it: closing its input lets it finish.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...)
	cmd.Env = []string{}
	for _, key := range inherited {
		if v, ok := os.LookupEnv(key); ok {
			cmd.Env = append(cmd.Env, key+"="+v)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	if home, err := os.UserHomeDir(); err == nil {
		cmd.Dir = home
	}
	return cmd, nil
}
