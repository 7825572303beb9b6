//go:build !race

package protocol_test

const underRace = false
