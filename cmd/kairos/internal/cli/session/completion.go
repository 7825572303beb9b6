package session

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/api"
)

// How much a shell waits for, and reads.
const (
	completionWait  = 3 * time.Second
	completionItems = 200
)

// CompleteURI completes the first argument with the protocols' URIs, each with
// its title.
func (s *Session) CompleteURI(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.CompleteURIs(cmd, args, typed)
}

// CompleteURIs completes every argument with URIs that are not arguments yet. It
// reports no errors: a person is typing.
func (s *Session) CompleteURIs(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var found []cobra.Completion
	s.whileTyping(cmd.Context(), func(ctx context.Context, t api.Transport) error {
		reply, err := api.Spaces.Call(ctx, t, api.SpacesRequest{Titles: true, Limit: completionItems})
		if err != nil {
			return err
		}
		there := strings.Join(args, " ")
		for _, space := range reply.Spaces {
			for _, c := range space.Chains {
				if c.URI != "" && strings.HasPrefix(c.URI, typed) && !strings.Contains(there, c.URI) {
					found = append(found, cobra.CompletionWithDesc(c.URI, c.Title))
				}
			}
		}
		return nil
	})
	return found, cobra.ShellCompDirectiveNoFileComp
}

// whileTyping runs do like WithTools, but for a bounded time, without a word and
// without making a database.
func (s *Session) whileTyping(ctx context.Context, do func(context.Context, api.Transport) error) {
	if s.Server() == "" {
		c, err := s.Load()
		if err == nil {
			err = isThere(c.Database)
		}
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
			return
		}
	}
	ctx, cancel := context.WithTimeout(ctx, completionWait)
	defer cancel()
	quiet := *s
	quiet.LogLevel = "error"
	if err := quiet.WithTools(ctx, do); err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
}

// isThere reports a database file that does not exist.
func isThere(d config.Database) error {
	for _, file := range d.Files() {
		if _, err := os.Stat(file); err != nil {
			return err
		}
	}
	return nil
}
