package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/embedding/static"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/search"
)

// embeddingReport is what `embedding check` prints.
type embeddingReport struct {
	OK        bool   `json:"ok"`
	Provider  string `json:"provider"`
	At        string `json:"at"`
	Model     string `json:"model"` // under which vectors are stored
	Dimension int    `json:"dimension"`
	// Tokens is the size of the vocabulary, of a model in a folder.
	Tokens       int               `json:"tokens,omitempty"`
	Similarities []similarityOfTwo `json:"similarities"`
	Milliseconds float64           `json:"milliseconds"` // of the comparison
}

// similarityOfTwo is the cosine of two texts.
type similarityOfTwo struct {
	A      string  `json:"a"`
	B      string  `json:"b"`
	Cosine float64 `json:"cosine"`
}

// Texts that a working model tells apart: the first two mean the same in other words.
const (
	checkedText  = "restart the web server"
	checkedLike  = "reboot the server of the website"
	checkedOther = "bake a chocolate cake"
)

func embeddingCommand(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "embedding", Short: "Check the embedding model", Example: "  kairos embedding check"}
	out := new(output.Format)
	check := &cobra.Command{
		Use:   "check",
		Short: "Check that the embedding model tells meanings apart",
		Long: "Loads the configured model or asks the endpoint, describes it, and compares a text with one that has the same meaning\n" +
			"and with one that has another. The exit status is 1 if this fails, or if the other text is as similar.",
		Example: "  kairos embedding check",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := at.Load()
			if err != nil {
				return err
			}
			r, err := output.While(cmd.ErrOrStderr(), "asking the model", func() (embeddingReport, error) {
				return examineEmbedding(cmd.Context(), c.Embedding)
			})
			if err != nil {
				return err
			}
			if err := out.Print(cmd.OutOrStdout(), r, r.text); err != nil {
				return err
			}
			if !r.OK {
				return errors.New("the model finds a text with another meaning as similar as one with the same; use another model")
			}
			return nil
		},
	}
	out.AddTo(check)
	cmd.AddCommand(check)
	return cmd
}

// examineEmbedding compares the texts.
func examineEmbedding(ctx context.Context, c config.EmbeddingConfig) (embeddingReport, error) {
	e, err := app.Embedder(c, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return embeddingReport{}, err
	}
	if e == nil {
		return embeddingReport{}, errors.New("no embedding is configured, so words alone are compared; set embedding.model to the folder of a model, or embedding.provider and embedding.url to an endpoint")
	}
	r := embeddingReport{Provider: c.Provider, At: c.At()}
	if s, ok := e.(*static.Embedder); ok {
		m, err := s.Model()
		if err != nil {
			return r, fmt.Errorf("%w; %s", err, c.Fix())
		}
		r.Tokens = m.Tokens()
	}
	began := time.Now()
	out, err := e.Embed(ctx, []string{checkedText, checkedLike, checkedOther})
	switch {
	case errors.Is(err, library.ErrTextRefused):
		return r, fmt.Errorf("the model does not take the English texts of this check: %w", err)
	case err != nil:
		return r, fmt.Errorf("%w; %s", err, c.Fix())
	}
	r.Milliseconds = float64(time.Since(began).Microseconds()) / 1000
	r.Model, r.Dimension = out.Model, len(out.Vectors[0])
	same, other := search.Cosine(out.Vectors[0], out.Vectors[1]), search.Cosine(out.Vectors[0], out.Vectors[2])
	r.Similarities = []similarityOfTwo{{checkedText, checkedLike, same}, {checkedText, checkedOther, other}}
	r.OK = same > other
	return r, nil
}

func (r embeddingReport) text(p *output.Printer) {
	p.Printf("provider    %s\nat          %s\nmodel       %s\n", r.Provider, output.Lines(r.At), output.Lines(r.Model))
	if r.Tokens > 0 {
		p.Printf("vocabulary  %d tokens\n", r.Tokens)
	}
	p.Printf("dimension   %d\ntook        %.2f ms\n", r.Dimension, r.Milliseconds)
	for _, s := range r.Similarities {
		p.Printf("%10.3f  %q, %q\n", s.Cosine, s.A, s.B)
	}
	if r.OK {
		p.Printf("ok: the text with the same meaning is more similar\n")
	}
}
