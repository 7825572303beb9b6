// Package servers knows the MCP servers whose tools KAIROS calls itself: the file
// that lists them, what was pinned of each tool, and how one is called.
package servers
