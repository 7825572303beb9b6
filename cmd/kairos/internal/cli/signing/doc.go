// Package signing writes signed statements of runs.
package signing
