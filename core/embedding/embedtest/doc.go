// Package embedtest is a fake embedding endpoint for tests, benchmarks and
// trying things by hand: OpenAI-compatible, on loopback, with vectors that are
// the same on every machine, and with faults that can be switched on. It
// stands in for a service, not for a model: what it finds alike comes from a
// small table of synonyms and from letters.
package embedtest
