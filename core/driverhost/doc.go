// Package driverhost starts, supervises, swaps and stops drivers, and provides a
// driver.Challenge or driver.Capability for each. A driver is a function of its request,
// so a call whose process dies is repeated on a fresh one. The package does not
// interpret the results of drivers.
//
// A Set is the drivers of one configuration. To change anything, Host.Prepare creates
// the next set and starts and probes its new drivers. The caller switches to it in one
// step and drains the old set, whose holders finish before its drivers stop. A slot is
// one driver in one or more sets, with its lifecycle (lifecycle.go); a generation is one
// start of it; a transport is its connection: a gRPC process, one process a call, or an
// attachment.
package driverhost
