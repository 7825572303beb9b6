// Package files reads the files that people name, and writes those that hold
// secrets. It refuses what is not a regular file instead of waiting for it.
package files
