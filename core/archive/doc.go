// Package archive keeps runs as records: it lists and explains them, reports what
// they need, redacts them, and removes them when they are old.
package archive
