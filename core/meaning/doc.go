// Package meaning is a table of English word vectors: words that are used alike
// have similar vectors. It knows nothing about protocols and searches nothing.
package meaning

//go:generate go run ./maketable -to words.table
