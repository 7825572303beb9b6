// Package ops has the commands that check an installation.
package ops
