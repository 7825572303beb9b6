// Package search defines what it means to find a protocol: how texts become words,
// which words are equal, and how well a protocol answers a request by its words and by
// what they mean, from 0 to 1. It is pure: an Index is in memory, and holds the Outlines
// that it is given.
package search
