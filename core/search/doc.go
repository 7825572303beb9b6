// Package search is what it means to find a protocol: how texts become words,
// which words are the same, and how well a protocol answers a query, 0..1. It
// is pure: stores keep what Analyse returns, look candidates up by its terms,
// and let Score judge them, so that all of them find the same in the same order.
package search

// Version is the version of the analyser. Documents and terms of another
// version must be made anew.
const Version = 3
