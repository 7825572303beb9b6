// Package drivers has the commands that write, install, inspect and swap drivers.
package drivers
