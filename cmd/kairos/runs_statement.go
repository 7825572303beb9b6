package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/statement"
)

// runsExport is `kairos runs export`: a signed statement of what a run proves.
func runsExport(at *session) *cobra.Command {
	to, without := "", false
	cmd := &cobra.Command{
		Use: "export RUN", Short: "Write a signed statement of what a run proves", Args: cobra.ExactArgs(1),
		Long: `Writes an in-toto Statement of the run in a DSSE envelope, signed with the key of signing.key_file, which is made when it is
first needed. Challenges and evidence stand beside it: whoever has the file may take them out, their digests are signed.
kairos runs verify checks the file without the database.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.withRun(cmd.Context(), args[0], func(ctx context.Context, a *app, id run.ID) error {
				data, err := a.state(ctx, id, without)
				if err != nil {
					return err
				}
				return writeStatement(cmd.OutOrStdout(), to, data)
			})
		},
	}
	cmd.Flags().StringVarP(&to, "output", "o", "", "write into this file; else to standard output")
	cmd.Flags().BoolVar(&without, "without-evidence", false, "leave challenges and evidence out: their digests stay")
	return cmd
}

// state signs a statement of a run.
func (a *app) state(ctx context.Context, id run.ID, withoutEvidence bool) ([]byte, error) {
	account, err := a.engine.Account(ctx, a.caller(), id)
	if err != nil {
		return nil, err
	}
	s, beside, err := statement.Of(recordOf(account, a.version))
	if err != nil {
		return nil, fmt.Errorf("the proof chain of run %s is broken, so nothing is signed: %w", id, err)
	}
	if withoutEvidence {
		beside = nil
	}
	key, err := a.config.signingKey()
	if err != nil {
		return nil, err
	}
	return statement.Sign(ctx, key, s, beside)
}

func recordOf(a engine.Account, version string) statement.Record {
	rec := statement.Record{Run: a.Run, Challenges: a.Challenges, Version: version, At: time.Now()}
	for _, step := range a.Chain.Steps {
		rec.Labels = append(rec.Labels, step.Label)
	}
	return rec
}

// attester closes a run. A reply with a run id beside an error means that the
// run is closed and that its statement was not written.
type attester func(ctx context.Context, in api.AttestRequest) (api.AttestReply, error)

// withAttester runs do with the way to attest; with a path it writes a
// statement of the run there, which needs the database and its key.
func (s session) withAttester(ctx context.Context, path string, do func(context.Context, attester) error) error {
	if path == "" {
		return s.withTools(ctx, func(ctx context.Context, t tools) error { return do(ctx, t.Attest) })
	}
	if address := s.server(); address != "" {
		return fmt.Errorf("--statement needs the database and its signing key, which are with the server %s: leave it out and run `kairos runs export` there", address)
	}
	return s.with(ctx, func(ctx context.Context, a *app) error {
		// What can be found out before the run is closed is.
		if _, err := a.config.signingKey(); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return fmt.Errorf("write the statement: %w", err)
		}
		return do(ctx, func(ctx context.Context, in api.AttestRequest) (api.AttestReply, error) {
			reply, err := a.engine.Attest(ctx, a.caller(), in)
			if err != nil {
				return api.AttestReply{}, err
			}
			if reply.RunID == "" {
				return reply, fmt.Errorf("no run was attested, so there is nothing to state: %s", reply.Message)
			}
			data, err := a.state(ctx, run.ID(reply.RunID), false)
			if err == nil {
				err = writeStatement(io.Discard, path, data)
			}
			if err != nil {
				return reply, fmt.Errorf("the run is attested, its statement is missing (`kairos runs export %s` makes it): %w", reply.RunID, err)
			}
			return reply, nil
		})
	})
}

// writeStatement writes to standard output, or a file that nobody sees half-written.
func writeStatement(stdout io.Writer, path string, data []byte) (err error) {
	if path == "" || path == "-" {
		_, err := stdout.Write(data)
		return err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("write the statement: %s is a directory", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".statement-*") // mode 0600: it holds evidence
	if err != nil {
		var inner *fs.PathError // which names a file that nobody asked for
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return fmt.Errorf("write the statement into %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the statement: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// runsVerify is `kairos runs verify`.
func runsVerify(out *format) *cobra.Command {
	with := ""
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Check a statement of a run, without the database", Args: cobra.ExactArgs(1),
		Long: `Checks the signature, the proof chain and every digest of a file that kairos runs export wrote, and names the first link that
is broken. It needs neither database nor configuration. Give the public key of whom you trust with --key (kairos runs key prints it
there): without it the file is only checked with the key inside, and anybody can put a key and a statement of their own there.

Exit status: 0 the statement is whole and every step is proved; 1 something in it is broken; 2 it could not be checked;
3 it is whole, but steps have no proof.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := publicKeyOf(with)
			if err != nil {
				return failure(2, err)
			}
			data, err := readStatement(cmd.Context(), cmd.InOrStdin(), args[0])
			if err != nil {
				return failure(2, err)
			}
			report, broken := statement.Verify(cmd.Context(), data, key)
			if err := out.print(cmd.OutOrStdout(), report, func(p *printer) { p.checked(report) }); err != nil {
				return failure(2, err)
			}
			switch {
			case broken != nil:
				return failure(1, fmt.Errorf("%s is broken: %w", args[0], broken))
			case !report.Verified:
				return failure(3, fmt.Errorf("%s is whole, but states a run that is not verified: there is no proof of %s", args[0], run.StepsText(report.Missing)))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&with, "key", "", "public key of who must have signed: a file with it, or base64")
	return cmd
}

// withStatus is an error with the exit status that tells it from others.
type withStatus struct {
	status int
	error
}

// failure is err with an exit status of its own.
func failure(status int, err error) error { return withStatus{status, err} }

func (e withStatus) Unwrap() error { return e.error }

// publicKeyOf reads what was given as --key; empty: the zero key.
func publicKeyOf(given string) (statement.PublicKey, error) {
	if given == "" {
		return statement.PublicKey{}, nil
	}
	text, err := readFile(given)
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
		f, err := openRegular(os.OpenFile, path)
		if err != nil {
			return nil, fmt.Errorf("read the statement: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		from = f
	}
	data, err := readAtMost(ctx, from, statement.MaxSize+1)
	if err != nil {
		return nil, fmt.Errorf("read the statement: %w", err)
	}
	return data, nil
}

// checked tells what was checked and what it is worth.
func (p *printer) checked(r statement.Report) {
	if r.Run.ID != "" {
		p.printf("%s   run %s\n", r.Protocol.Title, r.Run.ID)
		p.printf("made by %s at %s; the run is %s%s\n", r.MadeBy, r.MadeAt, r.Run.State, attestedAs(r.Run.Outcome))
	}
	for _, s := range r.Steps {
		p.printf("\n  %d. %s\n", s.Step, s.Label)
		p.field("provenance", string(s.Provenance))
		if s.Failed {
			p.field("verdict", run.NotRequired)
		}
		p.field("driver", exactly(s.Driver))
		p.field("via", exactly(s.Via))
		if a := s.Approval; a != nil {
			how := fmt.Sprintf("via %s (%s)", a.Via, a.Provenance)
			if a.Basis != "" {
				how += ", by " + string(a.Basis)
			}
			if a.By != "" {
				how += " of " + a.By
			}
			if a.Typed {
				how += ", phrase typed"
			}
			if n := len(a.Visits); n > 0 {
				how += fmt.Sprintf(", page opened %d times before", n-1)
			}
			if a.Premature > 0 {
				how += fmt.Sprintf(", work submitted %d times before approval", a.Premature)
			}
			p.field("approved", how)
		}
		for _, a := range s.Answers {
			if a.Model != "" {
				p.field("model", short(fmt.Sprintf("%s for %s; stop reason %q", a.Model, a.Input, a.StopReason)))
			}
		}
		p.field("challenge", string(s.Challenge))
		p.field("evidence", string(s.Evidence))
		p.field("proof", s.ProofHash)
	}
	p.printf("\n")
	for _, problem := range r.Problems {
		p.printf("BROKEN  %v\n", problem)
	}
	if !r.Whole {
		return
	}
	if r.Trusted {
		p.printf("signed by the key you gave, %s\n", r.KeyID)
	} else {
		p.printf("signed by the key in the file, %s\n", r.KeyID)
		p.printf("That proves no origin: anybody can make such a file. Give --key with the public key of whom you trust.\n")
	}
	if r.Verified {
		p.printf("verified: every step's evidence was accepted and the proof chain is whole; provenance says who vouches for each\n")
	} else {
		p.printf("not verified: %d of %d steps have no accepted proof\n", len(r.Missing), r.Run.StepCount)
	}
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
		s += " sha256 " + shortSum(d.SHA256)
	}
	return s
}

// publicKey is what `runs key` prints.
type publicKey struct {
	KeyID     string `json:"key_id"`
	PublicKey string `json:"public_key"` // base64
	PEM       string `json:"pem"`
	File      string `json:"file"` // of the private key
}

// runsKey is `kairos runs key`.
func runsKey(at *session, out *format) *cobra.Command {
	return &cobra.Command{
		Use: "key", Short: "Print the public key that checks statements of this machine", Args: cobra.NoArgs,
		Long: `Prints the public part of the key in signing.key_file, which is made if there is none. What it prints can be given to
kairos runs verify --key as a file; openssl and others read it too.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := at.load()
			if err != nil {
				return err
			}
			key, err := c.signingKey()
			if err != nil {
				return err
			}
			public := key.Public()
			v := publicKey{public.ID(), public.String(), public.PEM(), c.Signing.KeyFile}
			return out.print(cmd.OutOrStdout(), v, func(p *printer) {
				p.printf("key id  %s\nbase64  %s\n%s", v.KeyID, v.PublicKey, lines(v.PEM))
			})
		},
	}
}

// signingKey reads the key that signs statements, and makes one where there is none.
func (c config) signingKey() (statement.Key, error) {
	path := c.Signing.KeyFile
	text, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKeyFile(path, statement.NewKey().Encode()); err != nil {
			return statement.Key{}, err
		}
		text, err = readPrivate(path)
	}
	if err != nil {
		return statement.Key{}, fmt.Errorf("read the key that signs statements: %w", err)
	}
	key, err := statement.ParseKey(text)
	if err != nil {
		return key, fmt.Errorf("key file %s: %w; restore it, or move it away to have a new one made, which others do not know yet", path, err)
	}
	return key, nil
}

// checkSigningKey reports a key that cannot be used. A missing key is not an error: it is made when first needed.
func (c config) checkSigningKey() (detail string, err error) {
	path := c.Signing.KeyFile
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return path + ", made when first needed", nil
	}
	_, err = c.signingKey()
	return path, err
}
