package record

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"

	"github.com/kairos-mcp/kairos/core/fault"
)

// CheckVectors returns the length that all the vectors have.
func CheckVectors(model string, vectors map[string][]float32) (int, error) {
	length := -1
	for hash, vector := range vectors {
		if length < 0 {
			length = len(vector)
		}
		if len(vector) == 0 || len(vector) != length {
			return 0, fault.New(fault.InvalidArgument, "vectors of model %s with %d and %d numbers in one call", model, length, len(vector))
		}
		if raw, err := hex.DecodeString(hash); err != nil || len(raw) != sha256.Size {
			return 0, fault.New(fault.InvalidArgument, "%q is not the hash of a passage", hash)
		}
		sum := 0.0
		for _, x := range vector {
			sum += math.Abs(float64(x))
		}
		if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
			return 0, fault.New(fault.InvalidArgument, "a vector of model %s points nowhere: its numbers add up to %v", model, sum)
		}
	}
	return length, nil
}

// FormatVector returns a vector as it is stored: 32-bit floats, little endian.
func FormatVector(vector []float32) []byte {
	raw := make([]byte, 0, 4*len(vector))
	for _, x := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return raw
}

// ParseVector reads what FormatVector wrote.
func ParseVector(raw []byte) []float32 {
	vector := make([]float32, len(raw)/4)
	for i := range vector {
		vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return vector
}
