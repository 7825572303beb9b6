package library_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func withFiles(fields string) string { return `{"type":"shell","shell":{"cmd":"a"},` + fields + `}` }

func TestMintRefusesWithLineAndPointer(t *testing.T) {
	w := newWorld(t, nil)
	for name, tc := range map[string]struct{ challenge, want, at string }{
		"a type nobody handles":     {`{"type":"telepathy"}`, `/type`, "6:22:"},
		"what its driver refuses":   {`{"type":"shell","shell":{"bad":1}}`, `/shell/bad`, "6:45:"},
		"a schema of itself":        {`{"type":"shell","shell":{"cmd":"a"},"output_schema":{"$ref":"#"}}`, `/output_schema`, "6:66:"},
		"a schema that is none":     {`{"type":"shell","shell":{"cmd":"a"},"output_schema":{"type":5}}`, `/output_schema`, "6:66:"},
		"a reference to no step":    {`{"type":"shell","shell":{"cmd":"{{ steps.nobody.x }}"}}`, `nobody`, "6:46:"},
		"a file outside":            {withFiles(`"files":[{"path":"a"},{"path":"../x"}]`), "/files/1/path", "6:"},
		"a pattern that is none":    {withFiles(`"files":[{"path":"a","regex":"("}]`), "/files/0/regex", "6:"},
		"a glob of a value":         {withFiles(`"files":[{"glob":"{{ steps.say.x }}"}]`), "/files/0/glob", "6:"},
		"a file of no step":         {withFiles(`"files":[{"path":"{{ steps.say.x }}"}]`), "steps.say", "6:"},
		"files that are not a list": {withFiles(`"files":"a"`), "/files", "6:"},
		"files that are required":   {withFiles(`"files_required":true`), "/files_required", "6:"},
		"a schema of a file":        {withFiles(`"files":[{"path":"a","json_schema":{"type":"nobody"}}]`), "/files/0/json_schema", "6:"},
		"a reference to the future": {`{"type":"shell","shell":{"cmd":"{{ steps.last.x }}"}}`, `last`, "6:46:"},
	} {
		t.Run(name, func(t *testing.T) {
			doc := "# Bad\n\n## First\n\n```json\n{\"challenge\":" + tc.challenge + "}\n```\n\n## Last\n\nx\n"
			_, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: doc, ModelID: "m"})
			if fault.CodeOf(err) != fault.DocumentRefused || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.at) {
				t.Errorf("Mint = %v, want DOCUMENT_REFUSED at %s with %s", err, tc.at, tc.want)
			}
			if s, err := w.Search(t.Context(), w.caller, api.SearchRequest{Query: "Bad"}); err != nil || s.Choices[0].Role == "match" {
				t.Errorf("something was stored: %+v, %v", s, err)
			}
		})
	}
}

// A block that looks like a challenge is stored as text with a warning, and is an error
// of lint.
func TestWhatLooksLikeAChallengeIsStoredWithAWarning(t *testing.T) {
	w := newWorld(t, nil)
	const doc, says = "# Near\n\n## First\n\n```json\n{\"shell\":{\"cmd\":\"a\"}}\n```\n", `put it into {"challenge": {"type": "shell"`
	reply, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: doc, ModelID: "m"})
	if err != nil || len(reply.Warnings) != 1 || !strings.Contains(reply.Warnings[0].Message, says) {
		t.Errorf("Mint = %+v, %v, want a warning with %q", reply, err, says)
	}
	linted, err := w.Lint(t.Context(), library.LintInput{Document: doc})
	if err != nil || len(linted.Findings) != 1 || linted.Findings[0].Severity != driver.SeverityError {
		t.Errorf("Lint = %+v, %v, want one error", linted.Findings, err)
	}
	_, err = w.Mint(t.Context(), w.caller, api.MintRequest{Document: strings.Replace(doc, "shell", "chalenge", 1), ModelID: "m"})
	if fault.CodeOf(err) != fault.DocumentRefused || !strings.Contains(err.Error(), `must be written "challenge"`) {
		t.Errorf("Mint of a misspelt challenge = %v, want DOCUMENT_REFUSED", err)
	}
}

func TestMintRefusesDoubles(t *testing.T) {
	w := newWorld(t, nil)
	w.mint(threeSteps)
	_, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: threeSteps, ModelID: "m"})
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.DuplicateChain || f.Details["chain_id"] == "" {
		t.Errorf("second Mint = %v, want DUPLICATE_CHAIN with chain_id", err)
	}
}

func TestMintStoresAllOfADocumentOrNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.mint("# Beta\n\n## One\n\nx\n")
	_, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: "# Alpha\n\n## One\n\nx\n\n# Beta\n\n## One\n\ny\n", ModelID: "m"})
	if fault.CodeOf(err) != fault.DuplicateChain {
		t.Fatalf("Mint of a document with one title that is taken = %v, want DUPLICATE_CHAIN", err)
	}
	r, err := w.Search(t.Context(), w.caller, api.SearchRequest{Query: "Alpha"})
	if err != nil || r.Confidence == api.ConfidenceSure || *r.Choices[0].ChainLabel == "Alpha" {
		t.Errorf("half of the document was stored: %+v, %v", r, err)
	}
}

func TestUpdateDeleteAndDump(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	u, err := w.Update(t.Context(), w.caller, api.UpdateRequest{
		URIs: []string{uris[1]}, Documents: []string{"## Second anew\n\nnew body\n\n```json\n{\"challenge\":{\"type\":\"comment\",\"comment\":{}}}\n```\n"},
	})
	if err != nil || u.TotalUpdated != 1 {
		t.Fatalf("Update = %+v, %v", u, err)
	}
	d, err := w.Dump(t.Context(), w.caller, api.DumpRequest{URI: uris[1]})
	if err != nil || !strings.Contains(d.Document, "new body") || d.Label != "Second anew" || d.Challenge.Type != "comment" {
		t.Errorf("Dump = %+v, %v, want the new step", d, err)
	}
	del, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: []string{uris[0], "kairos://mem/11111111-1111-1111-1111-111111111111"}})
	if err != nil || del.TotalDeleted != 1 || del.TotalFailed != 1 {
		t.Errorf("Delete = %+v, %v, want one deleted and one failed", del, err)
	}
	if _, err := w.Dump(t.Context(), w.caller, api.DumpRequest{URI: uris[2], Protocol: true}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("Dump after the head was deleted: %v, want NOT_FOUND", err)
	}
}
