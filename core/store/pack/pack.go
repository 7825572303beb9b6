// Package pack compresses the documents of stores. It does not know what they
// mean: a dictionary holds what documents of a kind have in common, so that a
// document of a few hundred bytes shrinks as much as a large one.
package pack

import (
	"embed"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Kind selects the dictionary that a document is packed with.
type Kind uint32

// The kinds. The number is stored in each packed document and names the file of
// the dictionary. A dictionary is never changed and never removed: a better one
// is a new kind.
const (
	// Save is what happened in a run, as JSON.
	Save Kind = 1
	// Protocol is a protocol or a part of one, as JSON.
	Protocol Kind = 2
)

var kinds = []Kind{Save, Protocol}

//go:embed dictionaries
var dictionaries embed.FS

// maxDocument bounds the memory that a damaged document can claim.
const maxDocument = 256 << 20

// window is how far back a document can refer to itself. Each encoder keeps a buffer
// of it and of one block for as long as the program runs, and there is one for
// each kind and processor.
const window = 128 << 10

func (k Kind) dictionary() []byte {
	d, err := dictionaries.ReadFile(fmt.Sprintf("dictionaries/%d", k))
	if err != nil {
		panic(err) // a kind without its file
	}
	return d
}

// encoders has one encoder for each kind. They are made at the first use, because
// their tables take memory.
var encoders = func() map[Kind]func() *zstd.Encoder {
	all := map[Kind]func() *zstd.Encoder{}
	for _, k := range kinds {
		all[k] = sync.OnceValue(func() *zstd.Encoder {
			return must(zstd.NewWriter(nil, zstd.WithEncoderDictRaw(uint32(k), k.dictionary()), zstd.WithEncoderLevel(zstd.SpeedFastest),
				zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true),
				// A save is packed while its caller waits: it may take a third more space, for half the time.
				zstd.WithNoEntropyCompression(k == Save)))
		})
	}
	return all
}()

var decoder = sync.OnceValue(func() *zstd.Decoder {
	options := []zstd.DOption{zstd.WithDecoderMaxMemory(maxDocument), zstd.WithDecoderConcurrency(0)}
	for _, k := range kinds {
		options = append(options, zstd.WithDecoderDictRaw(uint32(k), k.dictionary()))
	}
	return must(zstd.NewReader(nil, options...))
})

// must is for options that are constants of this package.
func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}

// Pack compresses a document. The result has a checksum.
func Pack(k Kind, document []byte) []byte {
	return encoders[k]().EncodeAll(document, make([]byte, 0, len(document)/2+overhead))
}

// overhead is more than the frame of a document takes: magic, header, checksum.
const overhead = 32

// Unpack returns the document of any kind that Pack was given.
func Unpack(packed []byte) ([]byte, error) {
	document, err := decoder().DecodeAll(packed, nil)
	if err == nil && len(packed) == 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("unpack a document of %d bytes: %w", len(packed), err)
	}
	return document, nil
}
