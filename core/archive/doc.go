// Package archive keeps runs as records: it lists them, tells and explains what
// happened in them, says what they need, redacts them and removes them in time.
package archive
