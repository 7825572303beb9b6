package forgery_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// hand is a driver of these tests that does the steps of type mcp and shell itself,
// without a sandbox and without pinning anything. It takes the place of the shipped
// drivers tools and command where they are not among the drivers.
type hand struct {
	dir     string
	shipped string // types of challenges that shipped drivers do
}

func (h hand) definition() driver.Driver {
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "hand", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence},
			Effect: driver.EffectEffects, Features: []string{driver.FeatureGrant},
		},
		Capability: h,
	}
}

// plan is what it does; one of them is set.
type plan struct {
	Tool      string         `json:"tool_name,omitempty"`
	Arguments map[string]any `json:"arguments,omitempty"`
	Command   string         `json:"cmd,omitempty"`
}

func (h hand) Preview(_ context.Context, req driver.PreviewRequest) (driver.PreviewResult, error) {
	if strings.Contains(h.shipped, req.Input.Type) {
		return driver.CannotPreview("another driver does it"), nil
	}
	var p plan
	if err := json.Unmarshal(req.Input.Display, &p); err != nil {
		return driver.CannotPreview(err.Error()), nil
	}
	data, err := json.Marshal(p)
	effect := driver.EffectEffects
	if strings.HasPrefix(p.Tool, "find_") {
		effect = driver.EffectReads
	}
	return driver.Planned(driver.Plan{Text: string(data), Data: data, Effect: effect}), err
}

func (h hand) Render(ctx context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	var p plan
	if err := json.Unmarshal(req.Plan, &p); err != nil {
		return driver.RenderResult{}, fmt.Errorf("called without a plan: %w", err)
	}
	does := h.run
	if p.Tool != "" {
		does = h.call
	}
	value, err := does(ctx, p)
	if err != nil {
		return driver.CannotRender(err.Error()), nil
	}
	raw, err := json.Marshal(value)
	return driver.RenderResult{Answer: &driver.Answer{Value: raw, Provenance: driver.ServerObserved}}, err
}

func (h hand) run(ctx context.Context, p plan) (any, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", p.Command)
	cmd.Dir = filepath.Join(h.dir, "work")
	var out bytes.Buffer
	cmd.Stdout = &out
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	return map[string]any{"exit_code": cmd.ProcessState.ExitCode(), "stdout": out.String()}, nil
}

func (h hand) call(ctx context.Context, p plan) (any, error) {
	c := client.NewClient(transport.NewStdio("sh", nil, filepath.Join(h.dir, "tool.sh")))
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	defer c.Close()
	var init mcp.InitializeRequest
	init.Params.ProtocolVersion = "2025-11-25"
	if _, err := c.Initialize(ctx, init); err != nil {
		return nil, err
	}
	var call mcp.CallToolRequest
	call.Params.Name, call.Params.Arguments = p.Tool, p.Arguments
	res, err := c.CallTool(ctx, call)
	if err != nil {
		return nil, err
	}
	return map[string]any{"tool_name": p.Tool, "arguments": p.Arguments, "result": res.StructuredContent, "success": !res.IsError}, nil
}

func (h hand) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("it asks nobody"), nil
}

// ships says that the driver is among the programs.
func (x *trial) ships(name string) bool {
	_, err := os.Stat(filepath.Join(x.bin, "drivers", "kairos-driver-"+name))
	return err == nil
}

// lend gives the server the stand-in for the drivers that are not shipped.
func (x *trial) lend() {
	x.Helper()
	if x.drivers != "" || x.ships("tools") && x.ships("command") {
		return
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		x.Fatal(err)
	}
	shipped := ""
	for name, typ := range map[string]string{"tools": "mcp", "command": "shell"} {
		if x.ships(name) {
			shipped += " " + typ
		}
	}
	x.install("hand", fmt.Sprintf("#!/bin/sh\nFORGERY_HAND=%q FORGERY_SHIPPED=%q exec %q \"$@\"\n", x.dir, shipped, self))
	x.write("tree.yaml", strings.ReplaceAll(string(decision.Default().YAML), "evidence:\n", "evidence:\n      - {via: hand, when: step.granted}\n"))
	x.settings += fmt.Sprintf("tree: %q\n", x.path("tree.yaml"))
}
