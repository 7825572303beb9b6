// Package setup keeps what a server runs with as one snapshot: drivers, decision
// tree and settings, which it replaces together while the server runs. It reads
// no configuration format and takes no calls: whoever makes it says what is
// wanted, and the engine holds the present snapshot for each of its calls.
package setup
