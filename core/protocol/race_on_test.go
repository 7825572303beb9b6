//go:build race

package protocol_test

// underRace: the race detector makes parsing many times slower and larger, and
// a parser without goroutines has nothing for it to find.
const underRace = true
