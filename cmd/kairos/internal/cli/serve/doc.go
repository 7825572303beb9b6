// Package serve is the command that serves MCP and REST.
package serve
