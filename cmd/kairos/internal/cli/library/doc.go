// Package library has the commands that keep protocols: search, mint, change,
// export and import them, and their history.
package library
