// Package static turns texts into vectors without a server: a table with one
// vector for each token of a vocabulary, the mean of those that occur in a
// text, scaled to length 1. It reads models in the format of model2vec from a
// local folder, downloads nothing, and trusts nothing that is in the files.
package static
