package static_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/embedding/static"
	"github.com/kairos-mcp/kairos/core/library"
)

// vocabulary is what the small model of these tests knows; the position is the id.
var vocabulary = []string{
	"[PAD]", "[UNK]", "cafe", "café", "re", "##start", "##s", "restart", "the", "server", "serv", "##er", ",", ".", "!", "'", "-", "#", "[", "]",
	"漢", "字", "i", "##i", "##\u0307", "strasse", "straße", "σ", "##σ", "naive", "kub", "##ectl", "get", "pods", "$", "+", "—", "한", "\u1112", "##\u1161", "##\u11ab",
	"x", "##x", "unk", "##able", "u", "\u212b", "a", "b", "がき", "か", "##き", "##\u3099",
}

// files are the files of a model, which tests change before they are written.
type files struct {
	tokenizer map[string]any
	config    string
	table     []byte
}

// small is a model of the vocabulary whose vectors have 3 numbers.
func small() files {
	vocab := map[string]any{}
	vectors := make([]float32, 0, 3*len(vocabulary))
	for id, token := range vocabulary {
		vocab[token] = id
		vectors = append(vectors, float32(id), 1, -float32(id*id))
	}
	return files{
		tokenizer: map[string]any{
			"version": "1.0", "truncation": nil, "padding": nil,
			"added_tokens": []any{
				added(0, "[PAD]"),
				added(1, "[UNK]"),
			},
			"normalizer":     map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": nil, "lowercase": true},
			"pre_tokenizer":  map[string]any{"type": "BertPreTokenizer"},
			"post_processor": nil, "decoder": map[string]any{"type": "WordPiece", "prefix": "##", "cleanup": true},
			"model": map[string]any{
				"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab,
			},
		},
		config: `{"model_type":"model2vec","normalize":true,"embedding_dtype":"float32"}`,
		table:  tensors(`{"embeddings":{"dtype":"F32","shape":[%d,3],"data_offsets":[0,%d]}}`, 3, vectors),
	}
}

func added(id int, content string) map[string]any {
	return map[string]any{
		"id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
	}
}

// tensors is a safetensors file; the header gets the rows and the length of the data.
func tensors(header string, dimension int, vectors []float32) []byte {
	var data []byte
	for _, x := range vectors {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return safetensors(fmt.Sprintf(header, len(vectors)/dimension, len(data)), data)
}

func safetensors(header string, data []byte) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

// at returns the object in the tokenizer, to be changed.
func (f files) at(key string) map[string]any { return f.tokenizer[key].(map[string]any) }

func (f files) write(t testing.TB) string {
	t.Helper()
	tokenizer, err := json.Marshal(f.tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, f.table, tokenizer, []byte(f.config))
}

func write(t testing.TB, table, tokenizer, config []byte) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string][]byte{"model.safetensors": table, "tokenizer.json": tokenizer, "config.json": config} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func (f files) load(t testing.TB) *static.Model {
	t.Helper()
	m, err := static.Load(f.write(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The lists are what the tokenizers of Hugging Face give for this vocabulary.
func TestTokensAreThoseOfTheReference(t *testing.T) {
	uncased, cased, raw, cut := small(), small(), small(), small()
	cased.at("normalizer")["lowercase"] = false
	raw.at("normalizer")["clean_text"], raw.at("normalizer")["handle_chinese_chars"] = false, false
	raw.at("normalizer")["strip_accents"] = false
	cut.tokenizer["truncation"] = map[string]any{"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
	long := strings.Repeat("x", 100)
	for name, tc := range map[string]struct {
		model files
		text  string
		want  []string
	}{
		"nothing":                      {uncased, "", nil},
		"spaces":                       {uncased, " \t\r\n\u00a0\u2028\u3000 ", nil},
		"words":                        {uncased, "Restart the SERVER", []string{"restart", "the", "server"}},
		"the longest piece first":      {uncased, "restarts servers serves", []string{"restart", "##s", "server", "##s", "[UNK]"}},
		"one unknown piece":            {uncased, "the restartx restarty", []string{"the", "restart", "##x", "[UNK]"}},
		"punctuation":                  {uncased, "the,server.The!-'", []string{"the", ",", "server", ".", "the", "!", "-", "'"}},
		"symbols of ASCII":             {uncased, "$x+x", []string{"$", "x", "+", "x"}},
		"punctuation beyond ASCII":     {uncased, "the—server", []string{"the", "—", "server"}},
		"symbols beyond ASCII":         {uncased, "x€x", []string{"[UNK]"}},
		"accents":                      {uncased, "Café cafe\u0301 NAÏVE", []string{"cafe", "cafe", "naive"}},
		"accents that stay":            {cased, "café cafe\u0301", []string{"café", "[UNK]"}},
		"case that stays":              {cased, "The the", []string{"[UNK]", "the"}},
		"sharp s stays":                {uncased, "Straße STRASSE", []string{"straße", "strasse"}},
		"sigma at the end":             {uncased, "ΣΣ ς", []string{"σ", "##σ", "[UNK]"}},
		"I with a dot":                 {uncased, "İ", []string{"i"}},
		"I with a dot that stays":      {raw, "İ", []string{"i", "##\u0307"}},
		"a sign that is another":       {cased, "\u212b", []string{"\u212b"}},
		"ideographs":                   {uncased, "漢字the漢", []string{"漢", "字", "the", "漢"}},
		"ideographs left together":     {raw, "漢字", []string{"[UNK]"}},
		"ideographs of compatibility":  {uncased, "\ufa47", []string{"漢"}}, // decomposes into it
		"kana is not an ideograph":     {raw, "がき か", []string{"がき", "か"}},
		"voiced kana loses its mark":   {uncased, "がき", []string{"か", "##き"}},
		"hangul comes apart":           {uncased, "한", []string{"\u1112", "##\u1161", "##\u11ab"}},
		"hangul left whole":            {raw, "한", []string{"한"}},
		"control characters vanish":    {uncased, "re\x00st\u200bart\x0b the\ufffd", []string{"restart", "the"}},
		"a newline ends a word":        {uncased, "the\nserver\r\n", []string{"the", "server"}},
		"control characters that stay": {raw, "the\u200b", []string{"[UNK]"}},
		"the longest word":             {uncased, long, append([]string{"x"}, repeat("##x", 99)...)},
		"a word that is too long":      {uncased, long + "x the", []string{"[UNK]", "the"}},
		"added tokens as written":      {uncased, "the[PAD]server [UNK]", []string{"the", "[PAD]", "server", "[UNK]"}},
		"added tokens in other case":   {uncased, "[unk]", []string{"[", "unk", "]"}},
		"a prefix is not a piece":      {uncased, "##x", []string{"#", "#", "x"}},
		"broken text":                  {uncased, "the\xff\xfe server", []string{"the", "server"}},
		"cut off":                      {cut, "the nothing the server", []string{"the", "[UNK]", "the"}},
		"beginning with a mark":        {uncased, "\u0301the", []string{"the"}},
	} {
		got := tc.model.load(t).Tokenize(tc.text)
		if len(got) == 0 {
			got = nil
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: Tokenize(%q) (-want +got):\n%s", name, tc.text, diff)
		}
	}
}

func repeat(token string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = token
	}
	return out
}

func TestAVectorIsTheScaledMeanOfItsTokens(t *testing.T) {
	m := small().load(t)
	if m.Tokens() != len(vocabulary) || m.Dimension() != 3 {
		t.Errorf("the model has %d tokens and dimension %d, want %d and 3", m.Tokens(), m.Dimension(), len(vocabulary))
	}
	got, err := m.Vector("Restart UNKNOWNWORD the [UNK]")
	if err != nil {
		t.Fatal(err)
	}
	const restart, the = 7, 8
	want := []float64{restart + the, 2, -restart*restart - the*the}
	length := math.Sqrt(want[0]*want[0] + want[1]*want[1] + want[2]*want[2])
	for i := range want {
		if math.Abs(float64(got[i])-want[i]/length) > 1e-6 {
			t.Errorf("Vector = %v, want the direction of %v", got, want)
			break
		}
	}
	for _, text := range []string{"", "   ", "unknownword", "[UNK]"} {
		if v, err := m.Vector(text); !errors.Is(err, library.ErrTextRefused) {
			t.Errorf("Vector(%q) = %v, %v, want that the text is refused", text, v, err)
		}
	}
}

// Tokens behind the first 512 do not count, and unknown ones are not among these.
func TestLongTextsAreCutOff(t *testing.T) {
	f := small()
	m := f.load(t)
	whole, err := m.Vector(strings.Repeat("a ", 512))
	if err != nil {
		t.Fatal(err)
	}
	longer, err := m.Vector(strings.Repeat("a ", 512) + strings.Repeat("b ", 100_000))
	if err != nil || !cmp.Equal(whole, longer) {
		t.Errorf("Vector of a longer text = %v, %v, want %v", longer, err, whole)
	}
}

func TestNumbersOf16BitsGiveTheSameVectors(t *testing.T) {
	f := small()
	var data []byte
	var numbers []float32
	for id := range vocabulary {
		for _, x := range []float32{float32(id), -0.5, 1 / float32(int(1)<<(id%14))} {
			numbers, data = append(numbers, x), binary.LittleEndian.AppendUint16(data, half(t, x))
		}
	}
	f.table = tensors(`{"embeddings":{"dtype":"F32","shape":[%d,3],"data_offsets":[0,%d]}}`, 3, numbers)
	want, err := f.load(t).Vector("restart the server")
	if err != nil {
		t.Fatal(err)
	}
	f.table = safetensors(fmt.Sprintf(`{"__metadata__":{"format":"np"},"embeddings":{"dtype":"F16","shape":[%d,3],"data_offsets":[0,%d]}}  `, len(vocabulary), len(data)), data)
	got, err := f.load(t).Vector("restart the server")
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("Vector = %v, %v, want %v", got, err, want)
	}
}

// half is a number in 16 bits that loses nothing by it.
func half(t *testing.T, x float32) uint16 {
	t.Helper()
	bits := math.Float32bits(x)
	sign := uint16(bits >> 16 & 0x8000)
	if x == 0 {
		return sign
	}
	if bits&(1<<13-1) != 0 {
		t.Fatalf("%v has no exact form in 16 bits", x)
	}
	return sign | uint16((bits>>23&0xff)-127+15)<<10 | uint16(bits>>13&0x3ff)
}

func TestSpecialNumbersOf16Bits(t *testing.T) {
	for name, tc := range map[string]struct {
		bits uint16
		want float64 // the ratio to the 1 beside it; NaN: the table is refused
	}{
		"one":           {0x3c00, 1},
		"smallest":      {0x0001, 1.0 / (1 << 24)},
		"largest small": {0x83ff, -1023.0 / (1 << 24)},
		"largest":       {0x7bff, 65504},
		"infinite":      {0x7c00, math.NaN()},
		"no number":     {0x7e00, math.NaN()},
	} {
		f := small()
		var data []byte
		for range vocabulary {
			data = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(data, tc.bits), 0x3c00)
		}
		f.table = safetensors(fmt.Sprintf(`{"embeddings":{"dtype":"F16","shape":[%d,2],"data_offsets":[0,%d]}}`, len(vocabulary), len(data)), data)
		m, err := static.Load(f.write(t))
		if math.IsNaN(tc.want) {
			if err == nil || !strings.Contains(err.Error(), "row 0 has a number that is not finite") {
				t.Errorf("%s: Load = %v, want a refusal", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		v, err := m.Vector("the")
		if err != nil || math.Abs(float64(v[0])/float64(v[1])/tc.want-1) > 1e-6 {
			t.Errorf("%s: Vector = %v, %v, want a ratio of %v", name, v, err, tc.want)
		}
	}
}

func TestHostileFilesAreRefused(t *testing.T) {
	n := len(vocabulary)
	numbers := make([]float32, 3*n)
	for i := range numbers {
		numbers[i] = 1
	}
	data := func(more int) []byte { return make([]byte, 12*n+more) }
	header := func(h string) []byte { return safetensors(h, data(0)) }
	for name, tc := range map[string]struct {
		change func(f *files)
		want   string
	}{
		"an empty table":        {func(f *files) { f.table = nil }, "it has 0 bytes"},
		"cut off in the header": {func(f *files) { f.table = f.table[:20] }, "it breaks off in its header"},
		"cut off in the data":   {func(f *files) { f.table = f.table[:len(f.table)-1] }, "it may have been copied incompletely"},
		"bytes behind":          {func(f *files) { f.table = append(f.table, 0) }, "copied incompletely"},
		"a huge header":         {func(f *files) { binary.LittleEndian.PutUint64(f.table, 1<<40) }, "at most 1048576 are read"},
		"the largest header":    {func(f *files) { binary.LittleEndian.PutUint64(f.table, math.MaxUint64) }, "at most 1048576 are read"},
		"a header of text":      {func(f *files) { f.table = header("hello") }, "its header is not a JSON object"},
		"a header of a list":    {func(f *files) { f.table = header("[]") }, "its header is not a JSON object"},
		"no tensor":             {func(f *files) { f.table = header("{}") }, `it has no tensor "embeddings"`},
		"another tensor":        {func(f *files) { f.table = header(`{"embedding.weight":{}}`) }, `it has no tensor "embeddings"`},
		"weights and mapping": {func(f *files) {
			f.table = header(`{"embeddings":{"dtype":"F32","shape":[1,3],"data_offsets":[0,12]},"weights":{},"mapping":{}}`)
		}, "mapping, weights; take a model without weights and mapping"},
		"overlapping offsets": {func(f *files) {
			f.table = header(fmt.Sprintf(`{"embeddings":{"dtype":"F32","shape":[%d,3],"data_offsets":[0,%d]},"other":{"dtype":"F32","shape":[1,3],"data_offsets":[0,12]}}`, n, 12*n))
		}, "more tensors"},
		"whole numbers": {func(f *files) { f.table = header(`{"embeddings":{"dtype":"I8","shape":[1,3],"data_offsets":[0,3]}}`) }, `its numbers are "I8"`},
		"one dimension": {func(f *files) { f.table = header(`{"embeddings":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}`) }, "its tensor has 1 dimensions"},
		"no rows":       {func(f *files) { f.table = header(`{"embeddings":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}}`) }, "its shape is [0 3]"},
		"negative numbers": {func(f *files) {
			f.table = header(`{"embeddings":{"dtype":"F32","shape":[-1,-3],"data_offsets":[0,12]}}`)
		}, "its shape is [-1 -3]"},
		"an overflow": {func(f *files) {
			f.table = header(`{"embeddings":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`)
		}, "its shape is"},
		"a shape of fractions": {func(f *files) {
			f.table = header(`{"embeddings":{"dtype":"F32","shape":[1.5,3],"data_offsets":[0,12]}}`)
		}, "is not described"},
		"offsets outside": {func(f *files) {
			f.table = header(fmt.Sprintf(`{"embeddings":{"dtype":"F32","shape":[%d,3],"data_offsets":[12,%d]}}`, n, 12*n+12))
		}, "copied incompletely"},
		"offsets backwards": {func(f *files) {
			f.table = header(fmt.Sprintf(`{"embeddings":{"dtype":"F32","shape":[%d,3],"data_offsets":[%d,0]}}`, n, 12*n))
		}, "copied incompletely"},
		"another size": {func(f *files) {
			f.table = safetensors(fmt.Sprintf(`{"embeddings":{"dtype":"F32","shape":[%d,3],"data_offsets":[0,%d]}}`, n, 12*n+4), data(4))
		}, "copied incompletely"},
		"NaN": {func(f *files) {
			numbers[7] = float32(math.NaN())
			f.table = tensors(`{"embeddings":{"dtype":"F32","shape":[%d,3],"data_offsets":[0,%d]}}`, 3, numbers)
		}, "row 2 has a number that is not finite"},
		"more rows than tokens": {func(f *files) {
			f.table = tensors(`{"embeddings":{"dtype":"F32","shape":[%d,3],"data_offsets":[0,%d]}}`, 3, make([]float32, 3*n+3))
		}, fmt.Sprintf("tokenizer.json has %d tokens but model.safetensors has %d vectors", n, n+1)},
		"a tokenizer of another kind": {func(f *files) { f.at("model")["type"], f.at("model")["vocab"] = "Unigram", []any{} }, `its model is "Unigram"; only WordPiece`},
		"another normalizer":          {func(f *files) { f.at("normalizer")["type"] = "NFKC" }, `its normalizer is "NFKC"; only BertNormalizer`},
		"no normalizer":               {func(f *files) { f.tokenizer["normalizer"] = nil }, `its normalizer is ""`},
		"another pre-tokenizer":       {func(f *files) { f.at("pre_tokenizer")["type"] = "Metaspace" }, "only BertPreTokenizer"},
		"a list for a model":          {func(f *files) { f.tokenizer["model"] = []any{} }, "not the JSON of a tokenizer"},
		"an id twice":                 {func(f *files) { f.at("model")["vocab"].(map[string]any)["the"] = 0 }, "each once"},
		"an id outside":               {func(f *files) { f.at("model")["vocab"].(map[string]any)["the"] = 1 << 40 }, "each once"},
		"a negative id":               {func(f *files) { f.at("model")["vocab"].(map[string]any)["the"] = -1 }, "each once"},
		"no unknown token":            {func(f *files) { f.at("model")["unk_token"] = "<unk>" }, `its unknown token "<unk>" is not in its vocabulary`},
		"an added token with blanks":  {func(f *files) { f.tokenizer["added_tokens"].([]any)[0].(map[string]any)["lstrip"] = true }, `its added token "[PAD]"`},
		"an added token elsewhere":    {func(f *files) { f.tokenizer["added_tokens"].([]any)[0].(map[string]any)["id"] = 5 }, "has two ids"},
		"too many added tokens":       {func(f *files) { f.tokenizer["added_tokens"] = make([]map[string]any, 65) }, "65 added tokens"},
		"texts cut on the left":       {func(f *files) { f.tokenizer["truncation"] = map[string]any{"direction": "Left", "max_length": 9} }, "cuts off the beginning"},
		"a configuration of text":     {func(f *files) { f.config = "normalize" }, "read config.json"},
		"a configuration of a list":   {func(f *files) { f.config = "[]" }, "read config.json"},
		"a quantized vocabulary":      {func(f *files) { f.config = `{"vocabulary_quantization":30000}` }, "vocabulary_quantization"},
	} {
		f := small()
		tc.change(&f)
		m, err := static.Load(f.write(t))
		if err == nil || m != nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Load = %v, want %q", name, err, tc.want)
		}
	}
}

func TestMissingFilesAreNamed(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "config.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := static.Load(folder)
	for _, want := range []string{"model.safetensors: no such file", "tokenizer.json: no such file", "config.json is not a regular file"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(empty folder) = %v, want %q", err, want)
		}
	}
}

// Vectors of two models are never compared, and those of one are not made anew
// because its folder has moved.
func TestTheNameComesFromTheFilesAndNotFromTheirFolder(t *testing.T) {
	f := small()
	name := f.load(t).Name()
	if again := f.load(t).Name(); again != name || !strings.HasPrefix(name, "static/") || !strings.HasSuffix(name, "/3") {
		t.Errorf("the same files are %s and %s", name, again)
	}
	f.table[len(f.table)-1] ^= 1
	if other := f.load(t).Name(); other == name {
		t.Errorf("other vectors are %s, too", other)
	}
	f = small()
	f.at("normalizer")["lowercase"] = false
	if other := f.load(t).Name(); other == name {
		t.Errorf("another tokenizer is %s, too", other)
	}
}

func TestTheEmbedderAnswersForManyAtOnceAndTriesAgain(t *testing.T) {
	f := small()
	folder := f.write(t)
	table := filepath.Join(folder, "model.safetensors")
	if err := os.Rename(table, table+".away"); err != nil {
		t.Fatal(err)
	}
	e := static.New(folder, slog.New(slog.DiscardHandler))
	if _, err := e.Embed(t.Context(), nil); err == nil || !strings.Contains(err.Error(), folder) {
		t.Errorf("Embed without a table = %v, want an error that names the folder", err)
	}
	if err := os.Rename(table+".away", table); err != nil {
		t.Fatal(err)
	}
	m := f.load(t)
	texts := []string{"restart the server", "café"}
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			out, err := e.Embed(t.Context(), texts)
			for i, text := range texts {
				if want, _ := m.Vector(text); err == nil && !cmp.Equal(out.Vectors[i], want) {
					err = fmt.Errorf("%q has %v, want %v", text, out.Vectors[i], want)
				}
			}
			if err == nil && out.Model != m.Name() {
				err = fmt.Errorf("model = %s, want %s", out.Model, m.Name())
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if out, err := e.Embed(t.Context(), nil); err != nil || out.Model != m.Name() || len(out.Vectors) != 0 {
		t.Errorf("Embed without texts = %+v, %v, want the model alone", out, err)
	}
	if _, err := e.Embed(t.Context(), []string{"the", "unknownword"}); !errors.Is(err, library.ErrTextRefused) {
		t.Errorf("Embed with an unknown text = %v, want that it is refused", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(ctx, texts); !errors.Is(err, context.Canceled) {
		t.Errorf("Embed after the caller left = %v", err)
	}
}

// A mapped file that somebody cuts off would end the process.
func TestATableThatIsCutOffLaterIsAnError(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("whether a mapped file can be cut off depends on the system")
	}
	f := small()
	vectors := make([]float32, 4096*len(vocabulary))
	for i := range vectors {
		vectors[i] = 1
	}
	f.table = tensors(`{"embeddings":{"dtype":"F32","shape":[%d,4096],"data_offsets":[0,%d]}}`, 4096, vectors)
	folder := f.write(t)
	m, err := static.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(folder, "model.safetensors"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Vector("the"); err == nil || !strings.Contains(err.Error(), "became shorter") {
		t.Errorf("Vector = %v, want an error", err)
	}
}

func FuzzLoad(f *testing.F) {
	s := small()
	tokenizer, err := json.Marshal(s.tokenizer)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.table, tokenizer, []byte(s.config), "Restart the café, 漢字 한!")
	f.Add(s.table[:30], tokenizer, []byte(`{}`), "")
	f.Add(safetensors(`{"embeddings":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}}`, []byte("abcd")),
		[]byte(`{"model":{"type":"WordPiece","vocab":{"a":0}},"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"}}`), []byte(`{}`), "a b")
	f.Fuzz(func(t *testing.T, table, tokenizer, config []byte, text string) {
		m, err := static.Load(write(t, table, tokenizer, config))
		if err != nil {
			return
		}
		m.Tokenize(text)
		v, err := m.Vector(text)
		if err != nil {
			if !errors.Is(err, library.ErrTextRefused) {
				t.Errorf("Vector(%q) = %v", text, err)
			}
			return
		}
		var sum float64
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		if len(v) != m.Dimension() || math.Abs(sum-1) > 1e-3 {
			t.Errorf("Vector(%q) has %d numbers and length² %v", text, len(v), sum)
		}
	})
}
