package meaning_test

import (
	"math"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/meaning"
)

func vector(t *testing.T, table *meaning.Table, word string) []float32 {
	t.Helper()
	row, ok := table.Row(word)
	if !ok {
		t.Fatalf("the table does not have %q", word)
	}
	v := make([]float32, table.Dimensions())
	table.Add(v, row, 1)
	return v
}

func cosine(a, b []float32) float64 {
	var dot, x, y float64
	for i := range a {
		dot, x, y = dot+float64(a[i]*b[i]), x+float64(a[i]*a[i]), y+float64(b[i]*b[i])
	}
	return dot / math.Sqrt(x*y)
}

func TestWordsThatAreUsedAlikeHaveSimilarVectors(t *testing.T) {
	table := meaning.Default()
	certificate := vector(t, table, "certificate")
	if like, unlike := cosine(certificate, vector(t, table, "diploma")), cosine(certificate, vector(t, table, "soup")); like < 0.6 || unlike > 0.3 {
		t.Errorf("certificate is %.2f from diploma and %.2f from soup", like, unlike)
	}
	if length(vector(t, table, "refund")) <= 2*length(vector(t, table, "the")) {
		t.Error("a common word weighs as much as a rare one")
	}
	for _, word := range []string{"", "kairosmcp", "zzzzzzzz", "Certificate"} {
		if _, ok := table.Row(word); ok {
			t.Errorf("the table has %q", word)
		}
	}
}

func length(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x * x)
	}
	return math.Sqrt(sum)
}

const vectors = `{"precision":1,"dimensions":2,"words":["the","Cat",",","cat","dog"],"vectors":{
	"the":[1,0,1,0],"Cat":[1,1],",":[1,1],"cat":[0.6,0.8],"dog":[0.5,0.8]},"unkVector":[0,0]}`

func TestATableIsMadeAndRead(t *testing.T) {
	made, err := meaning.Make(strings.NewReader(vectors), meaning.PlainWord)
	if err != nil {
		t.Fatal(err)
	}
	table, err := meaning.Read(string(made))
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for i := range table.Len() {
		words = append(words, table.Word(i))
	}
	if got := strings.Join(words, " "); got != "cat dog the" {
		t.Errorf("words are %s", got)
	}
	for n := range made {
		if _, err := meaning.Read(string(made[:n])); err == nil {
			t.Fatalf("a table cut off after %d bytes is read", n)
		}
	}
}

func TestWordsOfATableHaveTheFormInWhichTextsAreSearched(t *testing.T) {
	const in = `{"dimensions":2,"words":["Über","uber","день"],"vectors":{"Über":[1,0],"uber":[0,1],"день":[1,1]}}`
	forms := map[string]string{"Über": "uber", "uber": "uber", "день": "день"}
	made, err := meaning.Make(strings.NewReader(in), func(word string) string { return forms[word] })
	if err != nil {
		t.Fatal(err)
	}
	table, err := meaning.Read(string(made))
	if err != nil || table.Len() != 2 || table.Word(0) != "uber" || table.Word(1) != "день" {
		t.Errorf("the table is %+v (%v), want uber and день", table, err)
	}
}

func TestScalesOfATableAreFinite(t *testing.T) {
	made, err := meaning.Make(strings.NewReader(vectors), meaning.PlainWord)
	if err != nil {
		t.Fatal(err)
	}
	copy(made[12:], "\xff\xff\xff\x7f") // NaN
	if _, err := meaning.Read(string(made)); err == nil {
		t.Error("a table with a scale that is not a number is read")
	}
}

func TestWhatIsNotATableOfVectorsIsRefused(t *testing.T) {
	for _, in := range []string{"", "[]", "{}", `{"words":["a"]}`, `{"dimensions":2,"words":["a"],"vectors":{}}`,
		`{"dimensions":2,"words":["a"],"vectors":{"a":[1]}}`, `{"words":["a"],"vectors":{"a":[1]}}`,
		`{"dimensions":1,"words":["a"],"vectors":{"a":[1]}}`, `{"dimensions":2,"words":["a"],"vectors":{"a":[1,1e300]}}`, `{"dimensions":9999999,"words":["a"],"vectors":{}}`,
		`{"dimensions":2,"words":[","],"vectors":{",":[1,2]}}`} {
		if _, err := meaning.Make(strings.NewReader(in), meaning.PlainWord); err == nil {
			t.Errorf("Make(%s) succeeded", in)
		}
	}
}

func FuzzRead(f *testing.F) {
	made, err := meaning.Make(strings.NewReader(vectors), meaning.PlainWord)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(made))
	f.Fuzz(func(t *testing.T, in string) {
		table, err := meaning.Read(in)
		if err != nil {
			return
		}
		for i := range table.Len() {
			table.Add(make([]float32, table.Dimensions()), i, 1)
			_ = table.Word(i)
		}
	})
}
