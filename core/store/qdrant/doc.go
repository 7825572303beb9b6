// Package qdrant keeps protocols on a Qdrant server and finds them there. It is
// the only package that knows the server's client; it keeps no runs.
//
// What must not be lost is in one collection: a manifest point for each chain,
// the version points of what it was, and the ratings of steps. Writing a
// manifest, on the condition that it is still the one that was read, is the
// commit. The search index is a second collection that is made of the manifests
// and can be made anew from them. docs/decisions/0026-qdrant-layout.md says why, and
// what can be seen if a process ends after each step.
package qdrant
