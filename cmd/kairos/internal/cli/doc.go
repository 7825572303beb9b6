// Package cli is the command line: the root command, and how commands say that
// they are used wrongly. Each group of commands is a package below it.
package cli
