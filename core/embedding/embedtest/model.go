package embedtest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// Meanings are the words that a model of WriteModel may know: words of one line
// mean the same.
var Meanings = [][]string{
	{"restart", "reboot"}, {"web", "website", "page"}, {"server", "machine"}, {"bake", "chocolate", "cake"}, {"the", "of", "a"},
}

// WriteModel writes the folder of a static model whose vectors have one number
// for each meaning.
func WriteModel(t testing.TB, folder string, meanings [][]string) {
	t.Helper()
	vocab, table := map[string]int{"[UNK]": 0}, make([]float32, len(meanings))
	for i, words := range meanings {
		for _, word := range words {
			vocab[word] = len(vocab)
			row := make([]float32, len(meanings))
			row[i] = 1
			table = append(table, row...)
		}
	}
	tokenizer, err := json.Marshal(map[string]any{
		"normalizer": map[string]any{"type": "BertNormalizer"}, "pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"model": map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "vocab": vocab},
	})
	if err != nil {
		t.Fatal(err)
	}
	header := fmt.Sprintf(`{"embeddings":{"dtype":"F32","shape":[%d,%d],"data_offsets":[0,%d]}}`, len(vocab), len(meanings), 4*len(table))
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	for _, x := range table {
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(x))
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"model.safetensors": file, "tokenizer.json": tokenizer, "config.json": []byte(`{"normalize":true}`)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
