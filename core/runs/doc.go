// Package runs loads runs for those whose they are, lets one use case at a time
// drive each, and saves what happened at once: the ways from the pure state
// machine of core/run to a store and back.
package runs
