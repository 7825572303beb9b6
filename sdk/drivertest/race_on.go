//go:build race

package drivertest

const withRaceDetector = true
