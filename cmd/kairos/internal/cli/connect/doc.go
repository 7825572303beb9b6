// Package connect is `kairos connect`: it writes the configuration with which an
// MCP client starts this server, or reaches one over HTTP, and checks it.
package connect
