// Package qdrant keeps protocols on a Qdrant server and finds them there. It is
// the only package that knows the server's client; it keeps no runs.
//
// All durable data is in one collection: a manifest point for each chain, version
// points for its older versions, and the ratings of steps. Writing a manifest, on
// the condition that it is still the one that was read, is the commit. The search
// index is a second collection that can be rebuilt from the manifests.
// docs/decisions/0026-qdrant-layout.md gives the reasons and the visible state
// after each step of an interrupted save.
package qdrant
