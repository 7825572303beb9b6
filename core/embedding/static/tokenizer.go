package static

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// tokenizer splits texts like the tokenizers of BERT models: normalise the text,
// split it at spaces and punctuation, and split each word into the longest pieces
// of the vocabulary. The tokens are those of Hugging Face's tokenizers for the
// same file, without the special tokens around a text.
type tokenizer struct {
	tokens []string         // by id
	words  map[string]int32 // pieces that a word may begin with
	suffix map[string]int32 // pieces that continue a word, without their prefix
	added  []addedToken     // longest first
	start  [256]bool        // the bytes that an added token begins with
	// longest is how many bytes the longest piece has.
	longest                      int
	unknown                      int32 // its id; -1: there is none
	clean, chinese, strip, lower bool
	maxWord                      int // characters of a word; a longer one is unknown
	maxIDs                       int // tokens of a text, unknown ones included; further ones are cut off
	maxText                      int // characters of a text, as model2vec cuts it; further ones are cut off
}

// addedToken is matched in the raw text, before anything else.
type addedToken struct {
	text string
	id   int32
}

// maxAdded bounds the added tokens, which are compared at every position of a
// text.
const maxAdded = 64

// definition is the part of tokenizer.json that is used.
type definition struct {
	Truncation *struct {
		Direction string `json:"direction"`
		MaxLength int    `json:"max_length"`
	} `json:"truncation"`
	Added []struct {
		ID         int64  `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LeftStrip  bool   `json:"lstrip"`
		RightStrip bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
	} `json:"added_tokens"`
	Normalizer struct {
		CleanText    *bool `json:"clean_text"`
		Chinese      *bool `json:"handle_chinese_chars"`
		StripAccents *bool `json:"strip_accents"`
		Lowercase    *bool `json:"lowercase"`
	} `json:"normalizer"`
	Model struct {
		Unknown string           `json:"unk_token"`
		Prefix  *string          `json:"continuing_subword_prefix"`
		MaxWord *int             `json:"max_input_chars_per_word"`
		Vocab   map[string]int64 `json:"vocab"`
	} `json:"model"`
}

// kind is the declared type of a part of the tokenizer.
type kind struct {
	Type string `json:"type"`
}

func parseTokenizer(b []byte) (*tokenizer, error) {
	// The vocabulary of other kinds of models is not an object, so the kinds
	// are read before everything else.
	var kinds struct {
		Model        kind `json:"model"`
		Normalizer   kind `json:"normalizer"`
		PreTokenizer kind `json:"pre_tokenizer"`
	}
	if err := json.Unmarshal(b, &kinds); err != nil {
		return nil, fmt.Errorf("it is not the JSON of a tokenizer: %w", err)
	}
	for _, k := range []struct {
		part, want string
		is         kind
	}{
		{"model", "WordPiece", kinds.Model},
		{"normalizer", "BertNormalizer", kinds.Normalizer},
		{"pre_tokenizer", "BertPreTokenizer", kinds.PreTokenizer},
	} {
		if k.is.Type != k.want {
			return nil, fmt.Errorf("its %s is %.40q; only %s is supported, which the English potion models have", k.part, k.is.Type, k.want)
		}
	}
	var d definition
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("it is not the JSON of a tokenizer: %w", err)
	}
	t := &tokenizer{
		clean: or(d.Normalizer.CleanText, true), chinese: or(d.Normalizer.Chinese, true), lower: or(d.Normalizer.Lowercase, true),
		maxWord: or(d.Model.MaxWord, 100), maxIDs: math.MaxInt,
	}
	t.strip = or(d.Normalizer.StripAccents, t.lower)
	if d.Truncation != nil {
		if d.Truncation.Direction == "Left" || d.Truncation.MaxLength < 1 {
			return nil, errors.New("it cuts off the beginning of texts, or everything, which is not supported")
		}
		t.maxIDs = d.Truncation.MaxLength
	}
	if err := t.number(d); err != nil {
		return nil, err
	}
	t.sort(or(d.Model.Prefix, "##"))
	return t, nil
}

func or[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

// number stores every token under its id, and rejects gaps and duplicates.
func (t *tokenizer) number(d definition) error {
	all := make(map[string]int64, len(d.Model.Vocab)+len(d.Added))
	maps.Copy(all, d.Model.Vocab)
	if len(d.Added) > maxAdded {
		return fmt.Errorf("it has %d added tokens; at most %d are supported", len(d.Added), maxAdded)
	}
	for _, a := range d.Added {
		if a.Content == "" || a.SingleWord || a.LeftStrip || a.RightStrip || a.Normalized {
			return fmt.Errorf("its added token %.40q is empty, or has single_word, lstrip, rstrip or normalized, which are not supported", a.Content)
		}
		if id, ok := all[a.Content]; ok && id != a.ID {
			return fmt.Errorf("its token %.40q has two ids, %d and %d", a.Content, id, a.ID)
		}
		all[a.Content] = a.ID
		t.added = append(t.added, addedToken{a.Content, int32(a.ID)}) //nolint:gosec // too large ones are refused below
		t.start[a.Content[0]] = true
	}
	t.tokens = make([]string, len(all))
	used := make([]bool, len(all))
	for text, id := range all {
		if id < 0 || id >= int64(len(all)) || used[id] {
			return fmt.Errorf("its %d tokens do not have the ids from 0 to %d, each once: %.40q has %d", len(all), len(all)-1, text, id)
		}
		used[id], t.tokens[id] = true, text
	}
	t.words = make(map[string]int32, len(d.Model.Vocab))
	for text, id := range d.Model.Vocab {
		t.words[text] = int32(id) //nolint:gosec // less than the number of tokens
	}
	t.unknown = -1
	if id, ok := t.words[d.Model.Unknown]; ok {
		t.unknown = id
	} else if d.Model.Unknown != "" {
		return fmt.Errorf("its unknown token %.40q is not in its vocabulary", d.Model.Unknown)
	}
	return nil
}

// sort prepares the tables for tokenizing.
func (t *tokenizer) sort(prefix string) {
	t.suffix = map[string]int32{}
	for text, id := range t.words {
		t.longest = max(t.longest, len(text))
		if rest, ok := strings.CutPrefix(text, prefix); ok && rest != "" {
			t.suffix[rest] = id
		}
	}
	slices.SortFunc(t.added, func(a, b addedToken) int { return len(b.text) - len(a.text) })
	lengths := make([]int, len(t.tokens))
	for i, text := range t.tokens {
		lengths[i] = utf8.RuneCountInString(text)
	}
	slices.Sort(lengths)
	if n := len(lengths); n > 0 {
		t.maxText = maxTokens * ((lengths[(n-1)/2] + lengths[n/2]) / 2)
	}
}

// known lists the ids of a text's tokens that have a vector.
func (t *tokenizer) known(text string) []int32 {
	ids := slices.DeleteFunc(t.ids(text), func(id int32) bool { return id == t.unknown })
	return ids[:min(len(ids), maxTokens)]
}

// ids lists the tokens of a text.
func (t *tokenizer) ids(text string) []int32 {
	c := cutter{tokenizer: t}
	text = beginning(strings.ToValidUTF8(text, "\ufffd"), t.maxText)
	from := 0
	for at := 0; at < len(text) && len(c.out) < t.maxIDs; {
		a, ok := t.addedAt(text[at:])
		if !ok {
			at++
			continue
		}
		c.cut(text[from:at])
		c.out = append(c.out, a.id)
		at += len(a.text)
		from = at
	}
	c.cut(text[from:])
	return c.out[:min(len(c.out), t.maxIDs)]
}

// beginning is at most the first n characters.
func beginning(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

func (t *tokenizer) addedAt(text string) (addedToken, bool) {
	if t.start[text[0]] {
		for _, a := range t.added {
			if strings.HasPrefix(text, a.text) {
				return a, true
			}
		}
	}
	return addedToken{}, false
}
