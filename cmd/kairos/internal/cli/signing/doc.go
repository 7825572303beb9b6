// Package signing makes and writes signed statements of runs.
package signing
