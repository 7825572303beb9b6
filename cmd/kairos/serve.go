package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/mcpserver"
)

func serveCommand(at *source) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve MCP over stdin and stdout",
		Long: "Serve MCP over stdin and stdout, for clients of 2025-11-25 and older and of 2026-07-28 alike.\n" +
			"Logs go to stderr. Drivers and database are first touched by the first tool call.\n\n" +
			"Changes of the configuration, the tree and drivers.lock are taken up while the server runs, also on SIGHUP\n" +
			"and on `kairos driver reload`. What is wrong with them is logged and changes nothing.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at.logLevel = ""
			if at.dev {
				if err := checkDev(""); err != nil {
					return err
				}
			}
			return at.with(cmd.Context(), func(ctx context.Context, a *app) error {
				at.sayDev(cmd.ErrOrStderr(), a.config)
				return serve(ctx, a, strings.Join(absolute(at.file), ""))
			})
		},
	}
	cmd.Flags().BoolVar(&at.dev, "dev", false, devHelp)
	return cmd
}

func serve(ctx context.Context, a *app, config string) (err error) {
	if err := a.store.Check(); err != nil {
		return err
	}
	ops := newOperation(ctx, a, config)
	defer func() { err = errors.Join(err, ops.close()) }()
	s, err := mcpserver.New(mcpserver.Config{
		Version:        fmt.Sprintf("v%s+%s", version, time.Now().UTC().Format("20060102.150405")),
		ChallengeTypes: a.challengeTypes,
		FirstCall:      ops.begin,
		Principal:      localPrincipal, Space: localSpace,
		StateKey:  a.config.stateKey,
		PlainWait: time.Duration(a.config.MCP.PlainWait), ProgressWait: time.Duration(a.config.MCP.ProgressWait),
	}, a.engine, a.log)
	if err != nil {
		return err
	}
	ops.tell(s.Refresh)
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.ServeStdio(ctx, os.Stdin, os.Stdout)
}

// stateKey reads the key that seals requestState, and makes one where there is
// none: a restarted server must be able to open what the last one sealed.
func (c config) stateKey() (key [32]byte, err error) {
	path := c.MCP.StateKeyFile
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeStateKey(path); err != nil {
			return key, err
		}
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return key, fmt.Errorf("read the key that seals questions to clients: %w", err)
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(raw) != len(key) {
		return key, fmt.Errorf("key file %s must hold 64 hex digits; delete it to have a new one made", path)
	}
	copy(key[:], raw)
	return key, nil
}

// makeStateKey writes a new key unless another process was first.
func makeStateKey(path string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the folder of the key file: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".state-*.key") // mode 0600
	if err != nil {
		return fmt.Errorf("make the key file: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	_, err = fmt.Fprintln(f, hex.EncodeToString(key[:]))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the key file: %w", err)
	}
	// A link fails where a file is already there, so two processes agree on one key.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the key file: %w", err)
	}
	return nil
}
