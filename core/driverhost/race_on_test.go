//go:build race

package driverhost_test

// underRace: the race detector makes every swap several times slower, and finds
// what it finds in a few.
const underRace = true
