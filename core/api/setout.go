package api

// longText is from how many bytes on a reply is set out. Shorter texts stay equal to the byte to the
// structured form: some clients show both forms of a reply if they differ.
const longText = 4 << 10

// SetOut puts each top-level member of a long JSON object on a line of its own, because clients
// leave out whole lines of a text that is too long for them. Other texts are returned as they are.
func SetOut(text []byte) []byte {
	if len(text) < longText || text[0] != '{' {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		b := text[i]
		switch {
		case quoted && b == '\\' && i+1 < len(text):
			out = append(out, b)
			i++
			b = text[i]
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			depth++
		case b == '}' || b == ']':
			if depth--; depth == 0 {
				out = append(out, '\n')
			}
		}
		out = append(out, b)
		if !quoted && depth == 1 && (b == ',' || b == '{') && (b == ',' || len(out) == 1) {
			out = append(out, '\n')
		}
	}
	return out
}
