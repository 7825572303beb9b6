// Package replicas keeps track of the servers that share a database: which there are,
// where they are reached, and which of them does a background job. It passes on no
// requests and knows no job.
package replicas
