// Package static turns texts into vectors without a server: the vector of a text
// is the mean of the vectors of its tokens from a table, scaled to length 1. It
// reads models in the format of model2vec from a local folder, downloads nothing,
// and does not trust the files.
package static
