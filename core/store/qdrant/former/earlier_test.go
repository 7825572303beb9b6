package former_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
	"github.com/kairos-mcp/kairos/core/store/qdrant/former"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
)

// earlierCollection fills a collection with the payloads of a file.
func earlierCollection(t *testing.T, address string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/legacy.json")
	must(t, err)
	var payloads []map[string]any
	must(t, json.Unmarshal(b, &payloads))
	name := qdranttest.Collection(t, address)
	qdranttest.Fill(t, address, name, payloads)
	return name
}

func TestACollectionOfTheEarlierServerIsRead(t *testing.T) {
	address := qdranttest.Start(t)
	o := former.Options{Options: client.Options{URL: address}, Collection: earlierCollection(t, address)}
	var got []protocol.Chain
	quality := map[string]api.Quality{}
	report, err := former.Read(t.Context(), o, func(p former.Protocol) error {
		got = append(got, p.Chain)
		maps.Copy(quality, p.Quality)
		return nil
	})
	if err != nil {
		t.Fatalf("Read = %v, want nil", err)
	}
	made := time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
	want := []protocol.Chain{
		{
			ID: protocol.ChainID("One memory"), Space: "space:kairos-app", Title: "One memory", ModelID: "model-a", CreatedAt: made, UpdatedAt: made,
			Steps: []protocol.Step{{UUID: "00000000-0000-4000-8000-000000000003", Label: "One memory", Text: "Just remember this.", Tags: []string{"one"}}},
		},
		{
			ID: "6929eee2-bf5b-516c-8fca-294a4bfe72c2", Space: "user:kairos:abc", Title: "Three Step", ModelID: "model-a",
			CreatedAt: made, UpdatedAt: made.Add(24 * time.Hour),
			Steps: []protocol.Step{
				{
					UUID: "00000000-0000-4000-8000-000000000001", Label: "First", Text: "## First\n\nFirst body", Tags: []string{"first", "body"},
					Challenge: json.RawMessage(`{"required":true,"shell":{"cmd":"make test","timeout_seconds":30},"type":"shell"}`),
				},
				{
					UUID: "00000000-0000-4000-8000-000000000002", Label: "Second", Text: "## Second\n\nSecond body", Tags: []string{},
					Challenge: json.RawMessage(`{"cmd":"make lint","required":true,"timeout_seconds":60}`),
				},
			},
		},
	}
	var kept []protocol.Chain
	for _, c := range got {
		if c.Title != "Gap" && c.Title != "Twin" {
			kept = append(kept, c)
		}
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("Read (-want +got):\n%s", diff)
	}
	rated := map[string]api.Quality{"00000000-0000-4000-8000-000000000001": {
		Score: 6, Tier: "excellent", RetrievalCount: 3, SuccessCount: 2, FailureCount: 1, QualityBonus: 1.8, LastRater: "kairos_next",
	}}
	if diff := cmp.Diff(rated, quality); diff != "" {
		t.Errorf("Read, ratings (-want +got):\n%s", diff)
	}
	if report.Points != 7 || report.Protocols != len(got) || len(got) != 4 {
		t.Errorf("Read reports %d points and %d protocols and gave %d, want 7, 4 and 4", report.Points, report.Protocols, len(got))
	}
	var problems []string
	for _, p := range report.Problems {
		problems = append(problems, p.Problem)
	}
	for _, says := range []string{"no text", "step 2 of 3, found as 1 of 1", "is not a time", "another point has the UUID"} {
		if !strings.Contains(strings.Join(problems, "\n"), says) {
			t.Errorf("the problems %q do not say %q", problems, says)
		}
	}
}

func TestReadingTheEarlierServerEndsAtTheFirstError(t *testing.T) {
	address := qdranttest.Start(t)
	o := former.Options{Options: client.Options{URL: address}, Collection: earlierCollection(t, address)}
	enough := errors.New("enough")
	calls := 0
	_, err := former.Read(t.Context(), o, func(former.Protocol) error {
		calls++
		return enough
	})
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("Read = %v after %d calls, want %v after 1", err, calls, enough)
	}
	o.Collection = "none-of-that-name"
	if _, err := former.Read(t.Context(), o, nil); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("Read(no collection) = %v, want %s", err, fault.NotFound)
	}
}

func TestAnIndexHoldsNothingToRead(t *testing.T) {
	address := qdranttest.Start(t)
	name := qdranttest.Collection(t, address)
	c := qdranttest.Dial(t, address)
	if err := c.CreateCollection(t.Context(), &pb.CreateCollection{
		CollectionName: name, VectorsConfig: pb.NewVectorsConfigMap(nil), Metadata: pb.NewValueMap(map[string]any{"kairos_database": "some"}),
	}); err != nil {
		t.Fatal(err)
	}
	_, err := former.Read(t.Context(), former.Options{Options: client.Options{URL: address}, Collection: name}, nil)
	if fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "the index of a database") {
		t.Errorf("Read(an index) = %v, want %s", err, fault.InvalidArgument)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
