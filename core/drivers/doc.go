// Package drivers is what use cases know of drivers: how to find them, what they
// may vouch for, and the setup of drivers, tree and settings that a use case
// holds from its start to its end.
package drivers
