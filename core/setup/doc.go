// Package setup keeps drivers, decision tree, rules and settings as one snapshot, which it
// replaces as a whole while the server runs. It reads no configuration format and
// serves no calls: its creator provides the desired state, and every use case holds
// the present snapshot from its start to its end.
package setup
