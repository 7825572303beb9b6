package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An idiom is a phrase that this project had to itself, so that readers had to
// translate it.
type idiom struct {
	phrase  *regexp.Regexp // matched in lower case, with identifiers split into words and lines joined
	but     *regexp.Regexp // matches of phrase that are ordinary English, or nil
	instead string
}

var idioms = []idiom{
	{regexp.MustCompile(`\b(?:\w+ )?(?:is|are|was) no \w+`), regexp.MustCompile(`^(?:there|here) |no (?:longer|more|less|later|earlier|larger|smaller|other)$`), "is not a ..."},
	{regexp.MustCompile(`\bstand(?:s|ing)? for\b`), nil, "what it means or represents"},
	{regexp.MustCompile(`\b(?:go|goes|going|went|gone) on\b`), regexp.MustCompile(`\bgone on$`), "continue, proceed, resume"},
	{regexp.MustCompile(`\b(?:hold|holds|held|holding) (?:\w+ )?down\b`), nil, "isolate, confine, limit"},
	{regexp.MustCompile(`\bas it says\b`), nil, "what happens"},
	{regexp.MustCompile(`\bmend(?:s|ed|ing)?\b`), nil, "fix, repair"},
	{regexp.MustCompile(`\btold by\b`), nil, "reported by"},
	{regexp.MustCompile(`\ba (?:no|yes)\b(?:[ .,;:)]|$)`), nil, "a decline, an approval"},
	{regexp.MustCompile(`\b(?:say|says|said|saying|tell|tells|told) (?:no|yes)\b(?: \w+)?`), regexp.MustCompile(` (?:no (?:more|longer)|yes or)$`), "decline, approve"},
	{regexp.MustCompile(`\botherwise than\b`), nil, "differs from"},
	{regexp.MustCompile(`\bwhat is (?:absent|not there)\b`), nil, "its name"},
	{regexp.MustCompile(`\b(?:deaf|bury|buries|buried|stumbles?|stumbled|lets? go)\b`), nil, "not listening, stop, crash, release"},
	{regexp.MustCompile(`\bof whoever\b`), nil, "the person or program"},
	{regexp.MustCompile(`\bbesieged?\b`), nil, "attack, load"},
	{regexp.MustCompile(`\bhold(?:s|ing)? (?:\w+ ){1,3}against\b|\bheld against\b`), nil, "check, compare, test"},
}

// A sentence whose subject is a clause with who or what. In lower case it is
// ordinary English ("says what failed"), and so is a question.
var (
	sentence = regexp.MustCompile(`(?:^|[.:;!?] )(?:Who|What|Whose|Whoever|Whatever) [^.:;!?]*[.:;!?]?`)
	asks     = regexp.MustCompile(`\?$|^(?:[.:;!?] )?(?:What|Who) (?:is|are|was|were|does|do|did|can|may|has|have|if|about|else|next)\b`)
)

// TestLanguage reads what people and agents read: code, comments, messages,
// help and manual.
func TestLanguage(t *testing.T) {
	sentences := beforeAndAfter(t)
	read := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if strings.HasPrefix(name, ".") && name != ".." && name != ".ci" || slices.Contains([]string{"node_modules", "bin", "build", "search"}, name) && !strings.HasSuffix(path, "core/search") {
				return filepath.SkipDir
			}
			return nil
		}
		if name == "language_test.go" || path == beforeFile || !slices.Contains([]string{".go", ".md", ".proto", ".yaml", ".txtar", ".txt", ".sh", ".html", ".css", ".py", ".ts"}, filepath.Ext(name)) && name != "Makefile" && filepath.Base(filepath.Dir(path)) != ".ci" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read++
		found := append(findIdioms(string(text), filepath.Ext(name)), findSentences(string(text), sentences)...)
		for _, f := range found {
			t.Errorf("%s:%d: %q: write %s", strings.TrimPrefix(path, "../"), f.line, f.text, f.instead)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if read < 500 {
		t.Fatalf("read only %d files; the test looks in the wrong place", read)
	}
}

type finding struct {
	line          int
	text, instead string
}

var (
	marker = regexp.MustCompile(`^\s*(?://+|#+|\*|--|;)?\s*`)
	hump   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// findIdioms joins lines, because phrases are wrapped, and remembers where each began.
func findIdioms(text, ext string) []finding {
	var found []finding
	var joined strings.Builder
	var starts []int
	code := ext == ".go" || ext == ".proto"
	commented := false
	for i, line := range strings.Split(text, "\n") {
		body := marker.ReplaceAllString(line, "")
		if comment := strings.HasPrefix(strings.TrimSpace(line), "//"); code {
			if comment {
				found = append(found, subjects(i+1, body, !commented)...)
			}
			commented = comment
		}
		starts = append(starts, joined.Len())
		joined.WriteString(body + " ")
	}
	lower, offset := words(joined.String())
	for _, id := range idioms {
		for _, at := range id.phrase.FindAllStringIndex(lower, -1) {
			phrase := strings.TrimSpace(lower[at[0]:at[1]])
			if id.but != nil && id.but.MatchString(phrase) {
				continue
			}
			line, _ := slices.BinarySearch(starts, offset[at[0]]+1)
			found = append(found, finding{line, phrase, id.instead})
		}
	}
	return found
}

// subjects finds sentences of a comment's line whose subject is a clause.
func subjects(line int, body string, first bool) []finding {
	if !first {
		body = "… " + body // its beginning is within a sentence
	}
	var found []finding
	for _, s := range sentence.FindAllString(body, -1) {
		if !asks.MatchString(s) {
			found = append(found, finding{line, s, "the thing itself as the subject"})
		}
	}
	return found
}

// words returns the text in lower case with identifiers split, and for each of
// its bytes the offset in text.
func words(text string) (lower string, offset []int) {
	split := strings.ToLower(hump.ReplaceAllString(text, "$1\x00$2"))
	for at, i := 0, 0; i < len(split); i++ {
		offset = append(offset, at)
		if split[i] != 0 {
			at++
		}
	}
	return strings.ReplaceAll(split, "\x00", " "), offset
}

// beforeFile has sentences that once shipped, and what takes their place.
const beforeFile = "../docs/testdata/language.md"

var (
	tableRow  = regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \|$`)
	quotes    = strings.NewReplacer("*", "", "`", "", `\"`, "", `"`, "")
	continued = regexp.MustCompile(`"\s*\+\s*$`)
	letters   = regexp.MustCompile(`\pL`)
)

// A rewording is a sentence of beforeFile: how it reads in plain, and what to write.
type rewording struct{ before, instead string }

func beforeAndAfter(t *testing.T) []rewording {
	t.Helper()
	page := readFile(t, beforeFile)
	var all []rewording
	for _, row := range tableRow.FindAllStringSubmatch(string(page), -1) {
		if before, _ := plain(row[1]); row[1] != "before" {
			all = append(all, rewording{strings.TrimSpace(before), row[2]})
		}
	}
	if len(all) < 40 {
		t.Fatalf("found only %d sentences in %s", len(all), beforeFile)
	}
	return all
}

func findSentences(text string, sentences []rewording) []finding {
	read, starts := plain(text)
	var found []finding
	for _, s := range sentences {
		for at := 0; ; {
			next := strings.Index(read[at:], s.before)
			if next < 0 {
				break
			}
			from, to := at+next, at+next+len(s.before)
			if at = to; letters.MatchString(read[max(from-1, 0):from]) || letters.MatchString(read[to:min(to+1, len(read))]) {
				continue // part of another word
			}
			line, _ := slices.BinarySearch(starts, from+1)
			found = append(found, finding{line, s.before, s.instead})
		}
	}
	return found
}

// plain joins the lines of a text, without what separates the words of one
// sentence: markers of comments, quotation marks, emphasis, humps of identifiers.
// It returns where each line begins.
func plain(text string) (joined string, starts []int) {
	var out strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		starts = append(starts, out.Len())
		line = continued.ReplaceAllString(marker.ReplaceAllString(line, ""), "")
		for _, word := range strings.Fields(hump.ReplaceAllString(quotes.Replace(line), "$1 $2")) {
			out.WriteString(strings.ToLower(word) + " ")
		}
	}
	return out.String(), starts
}

func TestSentencesAreFound(t *testing.T) {
	sentences := beforeAndAfter(t)
	for text, want := range map[string]int{
		"// Settlement is what an answer\n// comes to.":            1,
		"\tShort: \"Print which \" +\n\t\t\"program this is\",":    1,
		"const breath = 4096":                                      1,
		"The same in one breath, *Print* which `program` this is.": 2,
		"breathe": 0,
	} {
		if got := findSentences(text, sentences); len(got) != want {
			t.Errorf("%q: %d findings, want %d: %v", text, len(got), want, got)
		}
	}
}

func TestIdiomsAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"// The run goes on.":                                        1,
		"// The run goes\n// on.":                                    1,
		"func goOn() {}":                                             1,
		"// It is no number.":                                        1,
		"// There is no number, and it is no longer read.":           0,
		"// Who calls too often waits.":                              1,
		"// It says who calls. What is a call? An example.":          0,
		"// Who calls too often\n// waits. What comes then is read.": 2,
		"// The operator fixes it and the run continues.":            0,
	} {
		if got := findIdioms(text, ".go"); len(got) != want {
			t.Errorf("%q: %d findings, want %d: %v", text, len(got), want, got)
		}
	}
}
