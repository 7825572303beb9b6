// Package app wires a server: stores, drivers, engine and transports. It is the
// only package of the command that knows which of each there are.
package app
