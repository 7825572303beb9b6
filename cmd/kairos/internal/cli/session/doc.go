// Package session is what all commands share: the configuration to work on, and
// the server or the local database that answers the nine calls of agents.
package session
