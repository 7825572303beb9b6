// Package library keeps protocols: it mints, changes, finds, rates, exports and
// imports them, and remembers their older versions.
package library
