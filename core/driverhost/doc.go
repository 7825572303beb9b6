// Package driverhost starts, supervises and stops driver processes, and gives
// the engine a driver.Challenge or driver.Capability for each. A driver is a
// function of its request, so a call under which the process dies is simply
// made again on a fresh one; what a driver decides is not this package's business.
package driverhost
