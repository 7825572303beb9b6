package embedding

import (
	"fmt"
	"math"

	"github.com/kairos-mcp/kairos/internal/openai"
)

// ordered sorts vectors by the index of their texts and validates them: one for
// each text, of equal length, of finite numbers, not zero. The result has unit
// length.
func ordered(items []openai.Embedding, want int) ([][]float32, error) {
	if len(items) != want {
		return nil, &openai.Unusable{Problem: fmt.Sprintf("it has %d vectors for %d texts", len(items), want)}
	}
	out := make([][]float32, want)
	for _, item := range items {
		if item.Index < 0 || item.Index >= want || out[item.Index] != nil {
			return nil, &openai.Unusable{Problem: fmt.Sprintf("index %d of a vector is outside the texts or used twice", item.Index)}
		}
		v, err := unit(item.Vector)
		if err != nil {
			return nil, err
		}
		out[item.Index] = v
	}
	for _, v := range out {
		if len(v) != len(out[0]) {
			return nil, &openai.Unusable{Problem: fmt.Sprintf("its vectors have different lengths: %d and %d", len(out[0]), len(v))}
		}
	}
	return out, nil
}

// unit scales a vector to length 1.
func unit(v []float32) ([]float32, error) {
	if len(v) < 2 || len(v) > maxDimension {
		return nil, &openai.Unusable{Problem: fmt.Sprintf("a vector has %d numbers", len(v))}
	}
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	// NaN and infinities propagate to the sum.
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, &openai.Unusable{Problem: "a vector has a number that is not finite"}
	}
	length := math.Sqrt(sum)
	if length < 1e-12 {
		return nil, &openai.Unusable{Problem: "a vector is zero"}
	}
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(float64(x) / length)
	}
	return out, nil
}
