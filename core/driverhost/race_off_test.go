//go:build !race

package driverhost_test

const underRace = false
