package static

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

const (
	// headerStart is where the header of a safetensors file begins, behind its length.
	headerStart = 8
	// maxHeader is much larger than the header of one tensor.
	maxHeader = 1 << 20
	// maxDimension is larger than that of any model.
	maxDimension = 16384
)

// tensorName is the only tensor allowed in a table.
const tensorName = "embeddings"

// table is the vectors of all tokens, as they are in the file.
type table struct {
	rows, dimension int
	half            bool // F16 instead of F32
	data            []byte
}

// tensor is an entry of the header.
type tensor struct {
	Type    string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

// parseTable finds the vectors in a safetensors file and checks every number.
func parseTable(file []byte) (table, error) {
	if len(file) < headerStart {
		return table{}, errors.New("it breaks off before its header")
	}
	size := binary.LittleEndian.Uint64(file)
	if size > maxHeader {
		return table{}, fmt.Errorf("its header has %d bytes; at most %d are read", size, maxHeader)
	}
	if size > uint64(len(file)-headerStart) {
		return table{}, errors.New("it breaks off in its header")
	}
	header, data := file[headerStart:headerStart+int(size)], file[headerStart+int(size):]
	entry, err := parseHeader(header)
	if err != nil {
		return table{}, err
	}
	return entry.table(data)
}

func parseHeader(header []byte) (tensor, error) {
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(header, &entries); err != nil {
		return tensor{}, fmt.Errorf("its header is not a JSON object: %w", err)
	}
	delete(entries, "__metadata__")
	raw, ok := entries[tensorName]
	delete(entries, tensorName)
	others := slices.Sorted(maps.Keys(entries))
	switch {
	case !ok:
		return tensor{}, fmt.Errorf("it has no tensor %q; it is not a model of model2vec", tensorName)
	case len(others) > 0:
		return tensor{}, fmt.Errorf("it has more tensors than %q, which are not supported: %s; take a model without weights and mapping",
			tensorName, strings.Join(others[:min(len(others), 5)], ", "))
	}
	var entry tensor
	if err := json.Unmarshal(raw, &entry); err != nil {
		return tensor{}, fmt.Errorf("its tensor %q is not described: %w", tensorName, err)
	}
	return entry, nil
}

// table checks that the entry describes all of the data.
func (t tensor) table(data []byte) (table, error) {
	width := int64(4)
	switch t.Type {
	case "F32":
	case "F16":
		width = 2
	default:
		return table{}, fmt.Errorf("its numbers are %.20q; F32 and F16 are supported", t.Type)
	}
	if len(t.Shape) != 2 {
		return table{}, fmt.Errorf("its tensor has %d dimensions; it must have rows and columns", len(t.Shape))
	}
	if t.Shape[0] < 1 || t.Shape[0] > math.MaxInt32 || t.Shape[1] < 2 || t.Shape[1] > maxDimension {
		return table{}, fmt.Errorf("its shape is %d; it must have a row for each token and from 2 to %d columns", t.Shape, maxDimension)
	}
	size := int64(len(data))
	if len(t.Offsets) != 2 || t.Offsets[0] != 0 || t.Offsets[1] != size || t.Shape[0]*t.Shape[1]*width != size {
		return table{}, fmt.Errorf("its %d bytes of data are not the %d rows of %d numbers that its header describes; it may have been copied incompletely",
			size, t.Shape[0], t.Shape[1])
	}
	out := table{rows: int(t.Shape[0]), dimension: int(t.Shape[1]), half: t.Type == "F16", data: data}
	for i := range out.rows * out.dimension {
		if x := float64(out.at(i)); math.IsNaN(x) || math.IsInf(x, 0) {
			return table{}, fmt.Errorf("row %d has a number that is not finite", i/out.dimension)
		}
	}
	return out, nil
}

func (t table) at(i int) float32 {
	if t.half {
		return fromHalf(binary.LittleEndian.Uint16(t.data[2*i:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(t.data[4*i:]))
}

// add adds the vector of a row. The data may be unaligned, so the numbers are read
// byte by byte, which compiles to one instruction.
func (t table) add(sum []float32, row int) {
	sum = sum[:t.dimension]
	if t.half {
		b := t.data[2*row*t.dimension:][:2*t.dimension]
		for i := range sum {
			sum[i] += fromHalf(binary.LittleEndian.Uint16(b[2*i:]))
		}
		return
	}
	b := t.data[4*row*t.dimension:][:4*t.dimension]
	for i := range sum {
		sum[i] += math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
}

// fromHalf is a number of IEEE 754 with 16 bits.
func fromHalf(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0: // zero, or too small for the usual form
		x := float32(fraction) / (1 << 24)
		return math.Float32frombits(sign | math.Float32bits(x))
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}
