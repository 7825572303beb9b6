// Package embedtest is a fake embedding endpoint for tests, benchmarks and manual
// trials: OpenAI-compatible, on loopback, with vectors that are the same on every
// machine, and with faults that can be switched on. It replaces a service, not a
// model: similarity comes from a small table of synonyms and from letters.
package embedtest
