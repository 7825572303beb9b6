// Package search defines what it means to find a protocol: how texts become words,
// which words are equal, and how well a protocol answers a query, from 0 to 1. It
// is pure: stores keep the result of Analyse, look up candidates by its terms, and
// let a Scorer score them, so that all stores find the same protocols in the same
// order.
package search

// Version is the version of the analyser. Documents and terms of another version
// have to be made again.
const Version = 5
