// Package jsonlimit refuses JSON texts that would cost too much to decode. It
// counts bytes before a recursive decoder reads them, and decodes nothing itself.
package jsonlimit

import "fmt"

// Limits of a JSON text. A decoder allocates a hundred bytes and more for each value,
// and recurses with the depth.
const (
	MaxDepth  = 512     // of nested arrays and objects
	MaxValues = 250_000 // in one text, which is taken apart many times
)

// Check returns an error if the text exceeds a limit. The result for text that is not
// JSON is undefined.
func Check(text []byte) error {
	depth, values, inString := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			depth++
			values++
		case c == '}', c == ']':
			depth--
		case c == ',':
			values++
		}
		if depth > MaxDepth {
			return fmt.Errorf("it is nested deeper than %d levels; flatten it, or send the inner part as a string", MaxDepth)
		}
		if values > MaxValues {
			return fmt.Errorf("it has more than %d values; shorten it, or send long output as one string", MaxValues)
		}
	}
	return nil
}
