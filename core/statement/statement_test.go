package statement_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/encoding/protojson"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/statement"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

var began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// record is a run of a protocol with as many steps, of which some are proved.
func record(t testing.TB, steps, proved int) statement.Record {
	t.Helper()
	rec := statement.Record{
		Run: run.Run{
			ID: "0196f0a0-0000-7000-8000-000000000001", Principal: "local", ChainID: "chain", Title: "Release <it> & tell",
			Pin: strings.Repeat("ab", 32), StepCount: steps, State: run.Closed, Outcome: "success", CreatedAt: began, UpdatedAt: began.Add(time.Hour),
		},
		Version: "1.2.3", At: began.Add(2 * time.Hour),
	}
	for i := range steps {
		rec.Labels = append(rec.Labels, fmt.Sprintf("Step %d", i+1))
	}
	for i := range proved {
		challenge := json.RawMessage(fmt.Sprintf(`{"type":"shell","shell":{"cmd":"echo %d"}}`, i+1))
		ev := &run.Evidence{
			Proof: json.RawMessage(`{"exit_code":0}`), Output: json.RawMessage(fmt.Sprintf(`{"stdout":"<ü> %d"}`, i+1)),
			Answers:    []driver.Answer{{InputID: "evidence", Value: json.RawMessage(`{"n":1.50}`), Provenance: driver.ModelGenerated, Via: "sampling", Model: "model-1"}},
			Approval:   &run.Approval{Digest: "d", Via: "elicitation", Provenance: driver.ClientAttested, GrantedAt: began},
			Permission: &run.Permission{Acceptance: "acceptance-1", By: "Ann", Driver: "sampling", Effect: driver.EffectReads, Plan: strings.Repeat("ef", 32)},
		}
		rec.Run.Evidence = append(rec.Run.Evidence, ev)
		rec.Challenges = append(rec.Challenges, challenge)
		rec.Run.Proofs = append(rec.Run.Proofs, seal(t, rec.Run, i, challenge, ev))
	}
	return rec
}

func seal(t testing.TB, r run.Run, i int, challenge json.RawMessage, ev *run.Evidence) *run.Proof {
	t.Helper()
	evidenceDigest, err := ev.Digest()
	if err != nil {
		t.Fatal(err)
	}
	challengeDigest, err := run.Digest(challenge)
	if err != nil {
		t.Fatal(err)
	}
	p, err := run.Proof{
		Previous: r.ProofHash(), Run: r.ID, Step: i + 1, StepUUID: fmt.Sprintf("step-%d", i+1),
		ChallengeDigest: challengeDigest, EvidenceDigest: evidenceDigest, Provenance: driver.ModelGenerated,
		Driver: run.DriverRef{Name: "shell", Version: "1.0.0", SHA256: strings.Repeat("cd", 32)}, Via: run.DriverRef{Name: "sampling"},
		At: began.Add(time.Duration(i) * time.Minute),
	}.Seal()
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

func signed(t testing.TB, k statement.Key, rec statement.Record) []byte {
	t.Helper()
	s, beside, err := statement.Of(rec)
	if err != nil {
		t.Fatal(err)
	}
	return sign(t, k, s, beside)
}

func sign(t testing.TB, k statement.Key, s statement.Statement, beside []statement.Disclosed) []byte {
	t.Helper()
	data, err := statement.Sign(context.Background(), k, s, beside)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// broken checks the file and returns the first link that is broken, as text.
func broken(t testing.TB, data []byte, k statement.PublicKey) string {
	t.Helper()
	r, err := statement.Verify(context.Background(), data, k)
	if err == nil {
		if !r.Whole {
			t.Fatal("Verify says that nothing is wrong and that the statement is not whole")
		}
		return ""
	}
	var p *statement.Problem
	if !errors.As(err, &p) || r.Whole || r.Verified || len(r.Problems) == 0 || r.Problems[0] != p {
		t.Fatalf("Verify = %+v, %v, want a report that is not whole, with that problem first", r, err)
	}
	if p.Step > 0 {
		return fmt.Sprintf("step %d %s", p.Step, p.Link)
	}
	return string(p.Link)
}

func TestAStatementCanBeCheckedByOthers(t *testing.T) {
	k := statement.NewKey()
	data := signed(t, k, record(t, 3, 2))
	for name, key := range map[string]statement.PublicKey{"with the key": k.Public(), "without": {}} {
		r, err := statement.Verify(t.Context(), data, key)
		if err != nil || !r.Whole || r.Verified || r.KeyID != k.Public().ID() {
			t.Errorf("%s: Verify = %+v, %v, want it whole, not verified, of key %s", name, r, err, k.Public().ID())
		}
		if want := name == "with the key"; r.Trusted != want {
			t.Errorf("%s: trusted = %t, want %t", name, r.Trusted, want)
		}
		if want := "1 of 3 steps is not proved, 2 rest on a model's word"; r.Worth != want {
			t.Errorf("%s: it says %q, want %q", name, r.Worth, want)
		}
		if m := r.Steps[1].Permission; m == nil || m.String() != "accepted by Ann (acceptance acceptance-1)" || m.Plan != strings.Repeat("ef", 32) {
			t.Errorf("%s: the permission is %+v", name, m)
		}
		if diff := cmp.Diff([]int{3}, r.Missing); diff != "" {
			t.Errorf("%s: missing steps (-want +got):\n%s", name, diff)
		}
		if len(r.Steps) != 2 || r.Steps[1].Label != "Step 2" || r.Steps[1].Evidence != statement.Compared ||
			r.Steps[1].Challenge != statement.Compared || r.Steps[1].Answers[0].Model != "model-1" || r.Steps[1].Approval.Via != "elicitation" {
			t.Errorf("%s: steps = %+v, want what was recorded", name, r.Steps)
		}
	}
	if r, err := statement.Verify(t.Context(), signed(t, k, record(t, 2, 2)), k.Public()); err != nil || !r.Verified {
		t.Errorf("Verify(all steps proved) = %+v, %v, want it verified", r, err)
	}
}

func TestAStatementSaysHowTheYesCame(t *testing.T) {
	k := statement.NewKey()
	rec := record(t, 1, 1)
	yes := run.Approval{
		Digest: "d", Via: "page", Provenance: driver.ClientAttested, Basis: run.BasisPage, By: "ann", Typed: true, GrantedAt: began,
	}
	rec.Run.Evidence[0].Approval = &yes
	rec.Run.Proofs = nil
	rec.Run.Proofs = []*run.Proof{seal(t, rec.Run, 0, rec.Challenges[0], rec.Run.Evidence[0])}
	r, err := statement.Verify(t.Context(), signed(t, k, rec), k.Public())
	if err != nil || !r.Whole {
		t.Fatalf("Verify = %+v, %v, want it whole", r, err)
	}
	if diff := cmp.Diff(&yes, r.Steps[0].Approval); diff != "" {
		t.Errorf("approval (-recorded +verified):\n%s", diff)
	}
	for name, forge := range map[string]func(*run.Approval){
		"basis": func(a *run.Approval) { a.Basis = run.BasisForm },
		"by":    func(a *run.Approval) { a.By = "bob" },
		"typed": func(a *run.Approval) { a.Typed = false },
	} {
		s, beside, err := statement.Of(rec)
		if err != nil {
			t.Fatal(err)
		}
		other := yes
		forge(&other)
		s.Predicate.Steps[0].Approval = &other
		if got := broken(t, sign(t, k, s, beside), k.Public()); got != "step 1 evidence" {
			t.Errorf("%s changed: the first broken link is %q, want the evidence", name, got)
		}
	}
}

// One success is not stated as the only attempt, and nobody can take the others out.
func TestAStatementSaysWhatDidNotCount(t *testing.T) {
	k := statement.NewKey()
	rec := record(t, 2, 1)
	rec.Revision, rec.Stored = 2, 3
	tries := run.Tries{Times: 3, Failures: 2, Discarded: 2, Observed: run.Few{First: []run.Failure{{At: began, Via: "command", Code: "COMMAND_FAILED"}}}}
	rec.Run.Evidence[0].Tries = &tries
	rec.Run.Proofs = nil
	rec.Run.Proofs = []*run.Proof{seal(t, rec.Run, 0, rec.Challenges[0], rec.Run.Evidence[0])}
	rec.Run.Step = run.Step{Index: 2, Tries: run.Tries{Failures: 7}}
	r, err := statement.Verify(t.Context(), signed(t, k, rec), k.Public())
	if err != nil || !r.Whole {
		t.Fatalf("Verify = %+v, %v, want it whole", r, err)
	}
	if diff := cmp.Diff(&tries, r.Steps[0].Tries); diff != "" {
		t.Errorf("tries (-recorded +verified):\n%s", diff)
	}
	if r.Open == nil || r.Open.Failures != 7 {
		t.Errorf("of the open step is stated %+v, want its failures", r.Open)
	}
	if p := r.Protocol; p.Revision != 2 || p.Current || p.StoredRevision != 3 {
		t.Errorf("of the protocol is stated %+v, want that it is not the stored one", p)
	}
	s, beside, err := statement.Of(rec)
	if err != nil {
		t.Fatal(err)
	}
	s.Predicate.Steps[0].Tries = nil
	if got := broken(t, sign(t, k, s, beside), k.Public()); got != "step 1 evidence" {
		t.Errorf("without the tries the first broken link is %q, want the evidence", got)
	}
}

func TestTheStatementIsOneOfInToto(t *testing.T) {
	data := signed(t, statement.NewKey(), record(t, 2, 2))
	_, payload := opened(t, data)
	var s intoto.Statement
	if err := protojson.Unmarshal(payload, &s); err != nil {
		t.Fatalf("in-toto's own reader refuses the statement: %v", err)
	}
	if err := s.Validate(); err != nil {
		t.Errorf("in-toto's own check refuses the statement: %v", err)
	}
}

func TestTheFirstBrokenLinkIsNamed(t *testing.T) {
	k := statement.NewKey()
	for name, tc := range map[string]struct {
		change func(s *statement.Statement, beside []statement.Disclosed)
		want   string
	}{
		"nothing":             {func(*statement.Statement, []statement.Disclosed) {}, ""},
		"evidence":            {func(_ *statement.Statement, b []statement.Disclosed) { b[1].Evidence = []byte(`{"proof":{}}`) }, "step 2 evidence"},
		"null as evidence":    {func(_ *statement.Statement, b []statement.Disclosed) { b[1].Evidence = []byte(`null`) }, "step 2 evidence"},
		"challenge":           {func(_ *statement.Statement, b []statement.Disclosed) { b[0].Challenge = []byte(`{"type":"mcp"}`) }, "step 1 challenge"},
		"swapped evidence":    {func(_ *statement.Statement, b []statement.Disclosed) { b[0].Step, b[1].Step = 2, 1 }, "step 1 challenge"},
		"evidence of nothing": {func(_ *statement.Statement, b []statement.Disclosed) { b[1].Step = 9 }, "step 9 file"},
		"proof": {func(s *statement.Statement, _ []statement.Disclosed) {
			s.Predicate.Steps[1].Proof.Provenance = driver.ServerObserved
		}, "step 2 proof"},
		"order": {func(s *statement.Statement, _ []statement.Disclosed) {
			s.Predicate.Steps[0], s.Predicate.Steps[1] = s.Predicate.Steps[1], s.Predicate.Steps[0]
		}, "step 1 previous"},
		"a step less":      {func(s *statement.Statement, _ []statement.Disclosed) { s.Predicate.Steps = s.Predicate.Steps[:1] }, "step 2 file"},
		"another run":      {func(s *statement.Statement, _ []statement.Disclosed) { s.Predicate.Run.ID = "x" }, "step 1 previous"},
		"another protocol": {func(s *statement.Statement, _ []statement.Disclosed) { s.Predicate.Protocol.Digest.SHA256 = "00" }, "statement"},
		"verified":         {func(s *statement.Statement, _ []statement.Disclosed) { s.Predicate.Verified = false }, "statement"},
		"more steps":       {func(s *statement.Statement, _ []statement.Disclosed) { s.Predicate.Run.StepCount = 1 << 40 }, "statement"},
		"permission":       {func(s *statement.Statement, _ []statement.Disclosed) { s.Predicate.Steps[1].Permission.By = "Bob" }, "step 2 evidence"},
		"approval":         {func(s *statement.Statement, _ []statement.Disclosed) { s.Predicate.Steps[1].Approval.Via = "page" }, "step 2 evidence"},
		"model": {func(s *statement.Statement, _ []statement.Disclosed) {
			s.Predicate.Steps[1].Answers[0].Model = "better"
		}, "step 2 evidence"},
		"another type": {func(s *statement.Statement, _ []statement.Disclosed) {
			s.PredicateType = "https://slsa.dev/provenance/v1"
		}, "statement"},
	} {
		t.Run(name, func(t *testing.T) {
			s, beside, err := statement.Of(record(t, 2, 2))
			if err != nil {
				t.Fatal(err)
			}
			tc.change(&s, beside)
			if got := broken(t, sign(t, k, s, beside), k.Public()); got != tc.want {
				t.Errorf("the first broken link is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAnotherKeyIsNotTheSigner(t *testing.T) {
	data := signed(t, statement.NewKey(), record(t, 1, 1))
	if got := broken(t, data, statement.NewKey().Public()); got != "signature" {
		t.Errorf("with another key the first broken link is %q, want the signature", got)
	}
}

func TestWhoChangesTheSignedTextIsFoundTwice(t *testing.T) {
	data := signed(t, statement.NewKey(), record(t, 2, 2))
	r, err := statement.Verify(t.Context(), rewritten(t, data, func(s string) string {
		return strings.Replace(s, `"provenance":"model-generated","run"`, `"provenance":"server-observed","run"`, 1)
	}), statement.PublicKey{})
	if err == nil || len(r.Problems) != 2 || r.Problems[0].Link != statement.LinkSignature || r.Problems[1].Link != statement.Link(run.LinkProof) || r.Problems[1].Step != 1 {
		t.Errorf("Verify = %+v, %v, want a broken signature and the broken proof of step 1", r.Problems, err)
	}
}

// opened is the envelope in a file, and the text that it signs.
func opened(t *testing.T, data []byte) (dsse.Envelope, []byte) {
	t.Helper()
	var f struct{ Envelope dsse.Envelope }
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	payload, err := f.Envelope.DecodeB64Payload()
	if err != nil {
		t.Fatal(err)
	}
	return f.Envelope, payload
}

// rewritten is the file with its signed text changed.
func rewritten(t *testing.T, data []byte, change func(string) string) []byte {
	t.Helper()
	envelope, payload := opened(t, data)
	changed := change(string(payload))
	if changed == string(payload) {
		t.Fatal("nothing was changed")
	}
	return bytes.Replace(data, []byte(envelope.Payload), []byte(base64.StdEncoding.EncodeToString([]byte(changed))), 1)
}

func TestEvidenceMayBeLeftOutOrErased(t *testing.T) {
	k, rec := statement.NewKey(), record(t, 2, 2)
	s, beside, err := statement.Of(rec)
	if err != nil {
		t.Fatal(err)
	}
	r, err := statement.Verify(t.Context(), sign(t, k, s, beside[1:]), k.Public())
	if err != nil || !r.Verified || r.Steps[0].Evidence != statement.LeftOut || r.Steps[1].Evidence != statement.Compared {
		t.Errorf("Verify(evidence of step 2 alone) = %+v, %v, want it verified, step 1 left out", r, err)
	}
	rec.Run.Evidence[0] = &run.Evidence{}
	r, err = statement.Verify(t.Context(), signed(t, k, rec), k.Public())
	if err != nil || !r.Verified || r.Steps[0].Evidence != statement.Erased || r.Steps[1].Evidence != statement.Compared {
		t.Errorf("Verify(evidence of step 1 erased) = %+v, %v, want it verified, step 1 erased", r, err)
	}
}

// Canonical JSON has no line feed at its end; who wrote the file anew has none.
func TestAStatementNeedsNoLineFeedAtItsEnd(t *testing.T) {
	k := statement.NewKey()
	data := signed(t, k, record(t, 2, 2))
	r, err := statement.Verify(t.Context(), bytes.TrimSuffix(data, []byte("\n")), k.Public())
	if err != nil || !r.Verified || len(bytes.TrimSuffix(data, []byte("\n"))) != len(data)-1 {
		t.Errorf("Verify(without the line feed) = %+v, %v, want it verified", r, err)
	}
}

func TestABrokenRunGetsNoStatement(t *testing.T) {
	rec := record(t, 3, 3)
	rec.Run.Evidence[1].Output = json.RawMessage(`{}`)
	var b *run.Broken
	if _, _, err := statement.Of(rec); !errors.As(err, &b) || b.Step != 2 || b.Link != run.LinkEvidence {
		t.Errorf("Of(changed evidence of step 2) = %v, want it named", err)
	}
	rec = record(t, 3, 3)
	rec.Run.Evidence = rec.Run.Evidence[:2]
	if _, _, err := statement.Of(rec); !errors.As(err, &b) || b.Step != 3 {
		t.Errorf("Of(evidence of step 3 missing) = %v, want it named", err)
	}
}

func TestAChallengeThatIsNotTheOneProvedIsNotDisclosed(t *testing.T) {
	rec := record(t, 2, 2)
	rec.Challenges[0] = json.RawMessage(`{"type":"other"}`)
	_, beside, err := statement.Of(rec)
	if err != nil || beside[0].Challenge != nil || beside[1].Challenge == nil {
		t.Errorf("Of = %+v, %v, want the challenge of step 2 alone beside it", beside, err)
	}
}

// Every single bit of a small file (with -short one in 53), and any of a larger one.
func TestAFlippedBitIsFound(t *testing.T) {
	k := statement.NewKey()
	small := signed(t, k, record(t, 1, 1))
	stride := 1
	if testing.Short() {
		stride = 53 // prime: all bits of a byte get their turn
	}
	for bit := 0; bit < len(small)*8; bit += stride {
		flipped := bytes.Clone(small)
		flipped[bit/8] ^= 1 << (bit % 8)
		if _, err := statement.Verify(t.Context(), flipped, statement.PublicKey{}); err == nil {
			t.Fatalf("bit %d of byte %d was flipped (%q) and nothing found", bit%8, bit/8, flipped[max(bit/8-20, 0):bit/8+1])
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		steps := rapid.IntRange(1, 4).Draw(r, "steps")
		data := signed(t, k, record(t, steps, rapid.IntRange(1, steps).Draw(r, "proved")))
		flipped := bytes.Clone(data)
		for range rapid.IntRange(1, 3).Draw(r, "flips") {
			flipped[rapid.IntRange(0, len(data)-1).Draw(r, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
		}
		if _, err := statement.Verify(t.Context(), flipped, k.Public()); err == nil && !bytes.Equal(flipped, data) {
			r.Fatal("flipped bits were not found")
		}
	})
}

func TestAFileIsTakenAsItWasWrittenOnly(t *testing.T) {
	k := statement.NewKey()
	data := signed(t, k, record(t, 2, 2))
	text := strings.TrimSuffix(string(data), "\n")
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, "", " "); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ data, want string }{
		"empty":               {"", "it is empty"},
		"truncated":           {text[:len(text)/2], "ends after"},
		"one byte short":      {text[:len(text)-1], "ends after"},
		"two line feeds":      {text + "\n\n", "not in canonical form"},
		"two documents":       {text + "\n" + text + "\n", "not in canonical form"},
		"white space":         {text + " \n", "not in canonical form"},
		"windows line ends":   {text + "\r\n", "not in canonical form"},
		"indented":            {indented.String(), "not in canonical form"},
		"byte order mark":     {"\ufeff" + text + "\n", "byte 1: not JSON"},
		"a key twice":         {strings.Replace(text, `{"envelope"`, `{"format":"kairos-statement/1","envelope"`, 1) + "\n", "not in canonical form"},
		"an unknown key":      {strings.Replace(text, `{"envelope"`, `{"a":1,"envelope"`, 1) + "\n", "unknown field"},
		"a key in upper case": {strings.Replace(text, `"format"`, `"FORMAT"`, 1) + "\n", "not in canonical form"},
		"a wrong type":        {strings.Replace(text, `"format":"kairos-statement/1"`, `"format":1`, 1) + "\n", "cannot unmarshal number"},
		"another format":      {strings.Replace(text, "kairos-statement/1", "kairos-statement/2", 1) + "\n", `reads "kairos-statement/1"`},
		"deep":                {strings.Repeat("[", 1<<20), "max depth"},
		"deep evidence":       {`{"evidence":[{"challenge":` + strings.Repeat("[", 1<<20), "max depth"},
		"not an object":       {"17\n", "cannot unmarshal number"},
		"null":                {"null\n", "format"},
		"huge":                {strings.Repeat(" ", statement.MaxSize+1), "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := statement.Verify(t.Context(), []byte(tc.data), k.Public())
			var p *statement.Problem
			if !errors.As(err, &p) || p.Link != statement.LinkFile || !strings.Contains(p.Why, tc.want) {
				t.Errorf("Verify = %v, want a problem of the file with %q", err, tc.want)
			}
		})
	}
}

func TestKeysAreReadAsTheyAreWritten(t *testing.T) {
	k := statement.NewKey()
	again, err := statement.ParseKey(k.Encode())
	if err != nil || again.Public().ID() != k.Public().ID() {
		t.Errorf("ParseKey(Encode()) = %v, %v, want %v", again, err, k)
	}
	for _, text := range []string{k.Public().String(), k.Public().PEM(), "key " + k.Public().ID() + "\n" + k.Public().PEM(), k.Public().String() + "\n"} {
		public, err := statement.ParsePublic(text)
		if err != nil || public.ID() != k.Public().ID() {
			t.Errorf("ParsePublic(%q) = %v, %v, want the key", text, public, err)
		}
	}
	for _, text := range []string{"", "x", k.Public().String()[1:], string(k.Encode()), base64.StdEncoding.EncodeToString(make([]byte, 31))} {
		if _, err := statement.ParsePublic(text); err == nil {
			t.Errorf("ParsePublic(%.20q) = nil, want an error", text)
		}
	}
	if _, err := statement.ParseKey([]byte(k.Public().PEM())); err == nil {
		t.Error("ParseKey(a public key) = nil, want an error")
	}
	secret := strings.Split(string(k.Encode()), "\n")[1]
	for _, format := range []string{"%v", "%s", "%+v", "%#v"} {
		if printed := fmt.Sprintf(format, k); strings.Contains(printed, secret) || !strings.Contains(printed, k.Public().ID()) {
			t.Errorf("printed with %s the key is %q, want its id and no secret", format, printed)
		}
	}
}

func FuzzVerify(f *testing.F) {
	k := statement.NewKey()
	data := signed(f, k, record(f, 2, 1))
	f.Add(data)
	envelope := data[bytes.Index(data, []byte(`"envelope":`)):bytes.Index(data, []byte(`,"evidence":`))] // evidence may be taken out
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"envelope":{"payload":"e30=","payloadType":"","signatures":[]},"format":"kairos-statement/1","public_key":""}` + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := statement.Verify(t.Context(), in, k.Public())
		if (err == nil) != r.Whole {
			t.Errorf("Verify = %v with whole %t", err, r.Whole)
		}
		if r.Whole && !bytes.Contains(in, envelope) {
			t.Errorf("Verify takes %q, which was not signed", in)
		}
	})
}
