// Package qdrant is an index of protocols on a Qdrant server: a point for each
// step, with the payload that programs of the earlier server know and the vector of
// its passage. It is made from a database by core/index, keeps nothing that the
// database does not have, and can be made again at any time.
package qdrant
