package search_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// shelved is an index with protocols of a space, from documents with one heading.
func shelved(t *testing.T, table *meaning.Table, space string, docs ...string) *search.Index {
	t.Helper()
	x := search.New(table)
	put(t, x, table, space, docs...)
	return x
}

func put(t *testing.T, x *search.Index, table *meaning.Table, space string, docs ...string) {
	t.Helper()
	for _, doc := range docs {
		chains, findings := protocol.Parse([]byte(doc))
		if len(chains) != 1 {
			t.Fatalf("%v in %s", findings, doc)
		}
		x.Put(search.OutlineOf(space, chains[0], table))
	}
}

var shelf = []string{
	"# Refund a card payment\n\nGive the money back to a customer.\n\n## Check\nCheck the order.\n",
	"# Renew the certificate\n\n## Order\nOrder it from the authority.\n",
	"# Evacuate the building\n\nFor fire and smoke.\n\n## Leave\nLeave by the stairs.\n",
}

func ask(text string, spaces ...string) search.Request {
	return search.Request{Texts: []string{text}, Spaces: spaces, Threshold: 0.3, Choices: 5, Unsure: 5, Nearest: 5}
}

func titles(found []search.Found) string {
	var out []string
	for _, f := range found {
		out = append(out, f.Title)
	}
	return strings.Join(out, "; ")
}

func TestWhatTheRequestMeansIsNearest(t *testing.T) {
	x := shelved(t, meaning.Default(), "a", shelf...)
	for query, want := range map[string]string{
		"reimburse the buyer":    "Refund a card payment",
		"the house is burning":   "Evacuate the building",
		"reimburs a custmer now": "Refund a card payment",
	} {
		a := x.Search(ask(query, "a"))
		if all := slices.Concat(a.Choices, a.Nearest); len(all) != 3 || all[0].Title != want {
			t.Errorf("Search(%s) found %s, want %s first of three", query, titles(all), want)
		}
		if a.Confidence == search.ConfidenceSure || a.Confidence == search.ConfidenceNone {
			t.Errorf("Search(%s) is %s", query, a.Confidence)
		}
	}
}

func TestANameIsSure(t *testing.T) {
	x := shelved(t, meaning.Default(), "a", shelf...)
	a := x.Search(ask("renew the certificate", "a"))
	if a.Confidence != search.ConfidenceSure || len(a.Choices) != 1 || a.Choices[0].Title != "Renew the certificate" {
		t.Errorf("confidence is %s of %s", a.Confidence, titles(a.Choices))
	}
}

// Skills say in their front matter when they are needed. It counts like a description, and
// stands in lists instead of it.
func TestSkillsAreFoundByNameAndDescription(t *testing.T) {
	for name, table := range map[string]*meaning.Table{"by words": nil, "by words and meaning": meaning.Default()} {
		t.Run(name, func(t *testing.T) {
			x := shelved(t, table, "a", append(shelf[:len(shelf):len(shelf)],
				"---\nname: pdf-forms\ndescription: Completes questionnaires for the tax office.\n---\n# Papers\n\nA manual.\n\n## Read\nRead it.\n")...)
			a := x.Search(ask("questionnaires of the tax office", "a"))
			if len(a.Choices) != 1 || a.Choices[0].Title != "Papers" || a.Choices[0].Line != "Completes questionnaires for the tax office." {
				t.Errorf("by its description is found %+v", a.Choices)
			}
			if a := x.Search(ask("pdf forms", "a")); a.Confidence != search.ConfidenceSure || titles(a.Choices) != "Papers" {
				t.Errorf("by its name is found %s, %s", titles(a.Choices), a.Confidence)
			}
		})
	}
}

func TestWhatIsWeakIsListedWhereThereIsLittle(t *testing.T) {
	x := shelved(t, meaning.Default(), "a", shelf...)
	a := x.Search(ask("sing a song", "a"))
	if a.Confidence != search.ConfidenceWeak || len(a.Choices) != 0 || len(a.Nearest) != len(shelf) {
		t.Errorf("confidence is %s, choices are %s, nearest is %s", a.Confidence, titles(a.Choices), titles(a.Nearest))
	}
	if a := x.Search(ask("sing a song", "b")); a.Confidence != search.ConfidenceNone || a.Reach != 0 {
		t.Errorf("in a space without protocols confidence is %s and %d are in reach", a.Confidence, a.Reach)
	}
}

// Neither what another space has nor how many protocols it has changes an answer.
func TestOtherSpacesChangeNothing(t *testing.T) {
	alone, both := shelved(t, meaning.Default(), "a", shelf...), shelved(t, meaning.Default(), "a", shelf...)
	put(t, both, meaning.Default(), "b", "# Refund a refund\n\n## Refund\nRefund, certificate, reimburse, buyer.\n", "# Reimburse the buyer\n\n## Do\nDo it.\n")
	for _, query := range []string{"reimburse the buyer", "refund", "certificat", "smoke", "refund a refund"} {
		one, two := alone.Search(ask(query, "a")), both.Search(ask(query, "a"))
		if one.Confidence != two.Confidence || titles(one.Choices) != titles(two.Choices) || titles(one.Nearest) != titles(two.Nearest) ||
			len(one.Choices) > 0 && one.Choices[0].Score != two.Choices[0].Score {
			t.Errorf("Search(%s) differs with protocols in another space: %+v and %+v", query, one, two)
		}
	}
}

// A search of many protocols compares ranges of them in parallel, and nothing of that shows.
func TestProcessorsChangeNothing(t *testing.T) {
	chains := synthetic(3_000)
	x := filled(chains)
	for _, c := range []protocol.Chain{chains[0], chains[1_500], chains[2_999]} {
		words := strings.Fields(c.Description)
		r := ask(strings.Join(words[:5], " ")+" "+c.Steps[0].Label+"x", "a")
		many := x.Search(r)
		before := runtime.GOMAXPROCS(1)
		one := x.Search(r)
		runtime.GOMAXPROCS(before)
		if titles(many.Choices) != titles(one.Choices) || titles(many.Nearest) != titles(one.Nearest) || many.Choices[0].Score != one.Choices[0].Score {
			t.Errorf("one processor finds %s; %s, and all of them %s; %s", titles(one.Choices), titles(one.Nearest), titles(many.Choices), titles(many.Nearest))
		}
		if many.Choices[0].Title != c.Title {
			t.Errorf("found %s, want %s first", titles(many.Choices), c.Title)
		}
	}
}

func TestProtocolsAreReplacedAndDeleted(t *testing.T) {
	x := shelved(t, nil, "a", shelf...)
	id := x.Named("renew the certificate", []string{"a"})[0].ChainID
	put(t, x, nil, "a", "# Renew the certificate\n\nUnicorns.\n\n## Order\nOrder it.\n")
	if x.Len() != 3 || titles(x.Search(ask("unicorns", "a")).Choices) != "Renew the certificate" {
		t.Errorf("after it was replaced, %d protocols are left, and unicorns finds %+v", x.Len(), x.Search(ask("unicorns", "a")))
	}
	x.Delete("a", id)
	x.Delete("a", id)
	x.Delete("b", id)
	if got := x.Search(ask("unicorns", "a")); x.Len() != 2 || len(got.Choices) != 0 || got.Reach != 2 {
		t.Errorf("after it was deleted, %d protocols are left, and unicorns finds %+v", x.Len(), got)
	}
	if found := x.Named("Renew the certificate", []string{"a"}); len(found) != 0 {
		t.Errorf("a deleted protocol is found by its name: %+v", found)
	}
}

func TestNamesAreComparedWithoutMeaning(t *testing.T) {
	x := shelved(t, meaning.Default(), "a", shelf...)
	for title, want := range map[string]string{
		"Renew the certificate": "Renew the certificate",
		"certificates: renewed": "Renew the certificate",
		"Reimburse the buyer":   "",
		"Renew":                 "",
		"Rеnew the certificate": "Renew the certificate", // with a Cyrillic letter
	} {
		if got := titles(x.Named(title, []string{"a", "b"})); got != want {
			t.Errorf("Named(%s) = %q, want %q", title, got, want)
		}
	}
}

func TestVectorsOfAnEndpointReplaceTheTable(t *testing.T) {
	x := search.New(nil)
	for i, doc := range shelf {
		chains, _ := protocol.Parse([]byte(doc))
		v := make([]float32, 3)
		v[i] = 1
		x.Put(search.OutlineOf("a", chains[0], nil).With(3, [][]float32{v, nil}))
	}
	r := ask("qwertz", "a")
	r.Vectors = [][]float32{{0, 0.1, 0.9}}
	if got := slices.Concat(x.Search(r).Choices, x.Search(r).Nearest); got[0].Title != "Evacuate the building" {
		t.Errorf("found %s", titles(got))
	}
	r.Vectors = [][]float32{{1, 2}} // of another model
	if got := x.Search(r); len(got.Choices) != 0 {
		t.Errorf("a vector of another length finds %s", titles(got.Choices))
	}
}

// TestWordsThatNobodyHasWearAnIndex: it is told to be made again, and not for protocols
// that are stored again with the same words.
func TestWordsThatNobodyHasWearAnIndex(t *testing.T) {
	x := search.New(nil)
	large := func(n int) search.Outline {
		var text strings.Builder
		for i := range 15_000 {
			fmt.Fprintf(&text, "word%d ", n*15_000+i)
		}
		return search.OutlineOf("a", protocol.Chain{ID: strconv.Itoa(n), Title: "Large", Steps: []protocol.Step{{Label: "x", Text: text.String()}}}, nil)
	}
	for n := range 7 {
		for range 3 {
			x.Put(large(n))
		}
	}
	if x.Worn() {
		t.Error("an index is worn whose words all are in use")
	}
	for n := range 7 {
		x.Delete("a", strconv.Itoa(n))
	}
	if !x.Worn() {
		t.Error("an index with 105,000 words of deleted protocols is not worn")
	}
}
