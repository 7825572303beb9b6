// Package servers finds the running servers that a command talks to.
package servers
