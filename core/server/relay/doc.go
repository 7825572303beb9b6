// Package relay passes the requests of an MCP session on to the replica that holds the
// session. The id of a session names the replica where it began;
// another one takes it over when that has ended. It knows where replicas are from its
// caller, and nothing of MCP but the header with the id.
package relay
