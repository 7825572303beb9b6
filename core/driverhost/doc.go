// Package driverhost starts, supervises, swaps and stops drivers, and gives the
// engine a driver.Challenge or driver.Capability for each. A driver is a
// function of its request, so a call under which the process dies is simply
// made again on a fresh one; what a driver decides is not this package's business.
//
// A Set is the drivers of one configuration. To change anything, Host.Prepare
// makes the set that follows, with everything new in it started and proven; the
// caller switches to it in one step and retires the old one, whose holders
// finish before its drivers stop. A slot is one driver in one or more sets, with
// its life (lifecycle.go); a generation is one start of it; a link is how the
// generation reaches it: a gRPC process, one process a call, or an attachment.
package driverhost
