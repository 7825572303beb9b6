package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/statement"
)

// runsExport is `kairos runs export`: a signed statement of what a run proves.
func runsExport(at *session.Session, out *output.Format) *cobra.Command {
	to, without := "", false
	cmd := &cobra.Command{
		Use: "export RUN", Short: "Export a signed statement of a run", Args: cobra.ExactArgs(1), Annotations: session.AsksServers, ValidArgsFunction: at.CompleteRuns,
		Long: `Writes an in-toto Statement of the run in a DSSE envelope, signed with signing.key in keys_dir, which is created when
first needed. Challenges and evidence are attached outside the signed part, which has their digests, so they can be removed
from the file. kairos runs verify checks the file without the database. With --url the server signs with its own key.`,
		Example: "  kairos runs export 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2 --file run.json\n  kairos runs export 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2 --without-evidence",
		RunE: func(cmd *cobra.Command, args []string) error {
			if *out == output.FormatYAML {
				return errors.New("a statement is signed as JSON: leave -o yaml out")
			}
			return at.WithRun(cmd.Context(), args[0], func(ctx context.Context, t api.Transport, id run.ID) error {
				in := operations.ExportRunRequest{RunRequest: operations.RunRequest{RunID: id}, WithoutEvidence: without}
				reply, err := operations.ExportRun.Call(ctx, t, in)
				if err != nil {
					return err
				}
				return output.WriteFile(cmd.OutOrStdout(), to, "statement", []byte(reply.Statement))
			})
		},
	}
	cmd.Flags().StringVar(&to, "file", "", "write into this file; empty: to standard output")
	cmd.Flags().BoolVar(&without, "without-evidence", false, "leave challenges and evidence out: their digests stay")
	return cmd
}

// runsVerify is `kairos runs verify`.
func runsVerify(out *output.Format) *cobra.Command {
	with := ""
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Verify a statement of a run",
		Annotations: session.StaysLocal("it needs the file alone, and asking a server about its own statement would prove nothing"),
		Args:        cobra.ExactArgs(1),
		Long: `Verifies the signature, the proof chain and every digest of a file that kairos runs export wrote, and names the first broken
link. It needs neither database nor configuration. Give the public key of the signer with --key (kairos runs key prints it
there). Without --key the file is checked with the key inside it only, and anybody can put another key and statement there.

Exit status: 0 the statement is whole and every step is proved; 1 something in it is broken; 2 it could not be checked;
3 it is whole, but steps have no proof.`,
		Example: "  kairos runs verify run.json --key kairos.pub",
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := publicKeyOf(with)
			if err != nil {
				return output.Failure(2, err)
			}
			data, err := readStatement(cmd.Context(), cmd.InOrStdin(), args[0])
			if err != nil {
				return output.Failure(2, err)
			}
			report, broken := statement.Verify(cmd.Context(), data, key)
			if err := out.Print(cmd.OutOrStdout(), report, func(p *output.Printer) { printChecked(p, report) }); err != nil {
				return output.Failure(2, err)
			}
			switch {
			case broken != nil:
				return output.Failure(1, fmt.Errorf("%s is broken: %w", args[0], broken))
			case !report.Verified:
				return output.Failure(3, fmt.Errorf("%s is whole, but states a run that is not verified: there is no proof of %s", args[0], run.StepsText(report.Missing)))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&with, "key", "", "public key of who must have signed: a file with it, or base64")
	return cmd
}

// publicKeyOf reads what was given as --key, and returns the zero key for "".
func publicKeyOf(given string) (statement.PublicKey, error) {
	if given == "" {
		return statement.PublicKey{}, nil
	}
	text, err := files.Read(given)
	if err != nil {
		key, parseErr := statement.ParsePublic(given)
		if parseErr != nil {
			return key, fmt.Errorf("--key is neither a file that can be read (%w) nor a public key as base64", err)
		}
		return key, nil
	}
	key, err := statement.ParsePublic(string(text))
	if err != nil {
		return key, fmt.Errorf("--key %s: %w", given, err)
	}
	return key, nil
}

// readStatement reads a file, or standard input for "-".
func readStatement(ctx context.Context, stdin io.Reader, path string) (_ []byte, err error) {
	from := stdin
	if path != "-" {
		f, err := files.Open(os.OpenFile, path)
		if err != nil {
			return nil, fmt.Errorf("read the statement: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		from = f
	}
	data, err := files.ReadAtMost(ctx, from, statement.MaxSize+1)
	if err != nil {
		return nil, fmt.Errorf("read the statement: %w", err)
	}
	return data, nil
}

// printChecked tells what was checked and what it is worth.
func printChecked(p *output.Printer, r statement.Report) {
	if r.Run.ID != "" {
		p.Printf("%s   run %s\n", r.Protocol.Title, r.Run.ID)
		p.Printf("made by %s at %s; the run is %s%s\n", r.MadeBy, r.MadeAt, r.Run.State, attestedAs(r.Run.Outcome))
		p.Printf("it followed %s, as of then\n", api.ProtocolRevision{Revision: r.Protocol.Revision, Current: r.Protocol.Current, Stored: r.Protocol.StoredRevision})
	}
	for _, s := range r.Steps {
		p.Printf("\n  %d. %s\n", s.Step, s.Label)
		p.Field("by", run.Who(s.Provenance, ""))
		if s.Failed {
			p.Field("verdict", run.NotRequired)
		}
		if s.Tries != nil {
			p.Field("tried", s.Tries.Counts())
		}
		p.Field("driver", exactly(s.Driver))
		p.Field("via", exactly(s.Via))
		if s.Approval != nil {
			p.Field("approved", approved(*s.Approval))
		}
		if m := s.Permission; m != nil {
			p.Field("acceptance", fmt.Sprintf("%s, %s, plan %s", m, m.Effect, m.Plan))
		}
		for _, a := range s.Answers {
			if a.Model != "" {
				p.Field("model", output.Short(fmt.Sprintf("%s for %s; stop reason %q", a.Model, a.Input, a.StopReason)))
			}
		}
		p.Field("challenge", string(s.Challenge))
		p.Field("evidence", string(s.Evidence))
		p.Field("proof", s.ProofHash)
	}
	if r.Open != nil {
		p.Printf("\n  the next step is not solved: %s\n", r.Open.Counts())
	}
	p.Printf("\n")
	for _, problem := range r.Problems {
		p.Printf("BROKEN  %v\n", problem)
	}
	if !r.Whole {
		return
	}
	if r.Trusted {
		p.Printf("signed by the key you gave, %s\n", r.KeyID)
	} else {
		p.Printf("signed by the key in the file, %s\n", r.KeyID)
		p.Printf("That proves no origin: anybody can make such a file. Give --key with the public key of whom you trust.\n")
	}
	if r.Verified {
		p.Printf("verified: %s\n", r.Worth)
	} else {
		p.Printf("not verified: %s\n", r.Worth)
	}
}

// approved tells how an approval came.
func approved(a run.Approval) string {
	how := fmt.Sprintf("via %s, by %s", a.Via, a.Approver())
	if names := a.People(); names != "" {
		how += ": " + names
	}
	if a.Typed {
		how += ", phrase typed"
	}
	if said := a.Delay.Words(); said != "" {
		how += ", " + said
	}
	if n := len(a.Visits); n > 0 {
		how += fmt.Sprintf(", page opened %d times before", n-1)
	}
	if a.Premature > 0 {
		how += fmt.Sprintf(", work submitted %d times before approval", a.Premature)
	}
	return how
}

func attestedAs(outcome string) string {
	if outcome == "" {
		return ", not attested"
	}
	return ", attested as " + outcome
}

func exactly(d run.DriverRef) string {
	s := d.Name
	if d.Version != "" {
		s += " " + d.Version
	}
	if d.SHA256 != "" {
		s += " sha256 " + output.ShortSum(d.SHA256)
	}
	return s
}

// publicKey is what `runs key` prints.
type publicKey struct {
	operations.SigningKeyReply

	File string `json:"file,omitempty"` // of the private key; a server does not name it
}

// runsKey is `kairos runs key`.
func runsKey(at *session.Session, out *output.Format) *cobra.Command {
	return &cobra.Command{
		Use: "key", Short: "Print the public key of this machine's statements", Args: cobra.NoArgs, Annotations: session.AsksServers,
		Long: `Prints the public part of signing.key in keys_dir, which is created if there is none. The output is what
kairos runs verify --key takes as a file; openssl and others read it too. With --url it is the key of the server: trust it as
far as you trust the connection.`,
		Example: "  kairos runs key > kairos.pub",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return output.Reply(cmd, out, func(p *output.Printer, k publicKey) {
				p.Printf("key id  %s\nbase64  %s\n%s", k.KeyID, k.PublicKey, output.Lines(k.PEM))
			})(keyOf(cmd.Context(), at))
		},
	}
}

// keyOf is the public key of the server, else of this machine, which needs no
// database for it.
func keyOf(ctx context.Context, at *session.Session) (v publicKey, err error) {
	if at.Server() != "" {
		err = at.WithTools(ctx, func(ctx context.Context, t api.Transport) error {
			v.SigningKeyReply, err = operations.SigningKey.Call(ctx, t, operations.SigningKeyRequest{})
			return err
		})
		return v, err
	}
	c, err := at.Load()
	if err != nil {
		return v, err
	}
	key, err := c.Keys().Signing()
	if err != nil {
		return v, err
	}
	public := key.Public()
	return publicKey{operations.SigningKeyReply{KeyID: public.ID(), PublicKey: public.String(), PEM: public.PEM()}, c.Keys().SigningFile()}, nil
}
