package search_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/search"
)

func TestWordsOfATableAreThoseOfTexts(t *testing.T) {
	for in, want := range map[string]string{
		"Löschen": "loschen", "сервер": "сервер", "p95": "p95", "straße": "strasse", "再起": "再起",
		"": "", ",": "", "two words": "", "再起動": "",
	} {
		if got := search.WordOf(in); got != want {
			t.Errorf("WordOf(%q) = %q, want %q", in, got, want)
		}
	}
	const vectors = `{"dimensions":2,"words":["der","löschen","Сервер"],"vectors":{"der":[1,1],"löschen":[1,0],"Сервер":[0,1]}}`
	made, err := meaning.Make(strings.NewReader(vectors), search.WordOf)
	if err != nil {
		t.Fatal(err)
	}
	table, err := meaning.Read(string(made))
	if err != nil {
		t.Fatal(err)
	}
	if m := search.Mean(table, "Der СЕРВЕР: Löschen, Kuchen!"); m.Words != 3 || m.Known != 2 {
		t.Errorf("of the text %d words count and %d are known, want 3 and 2", m.Words, m.Known)
	}
}
