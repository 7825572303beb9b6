// Package ask lets the person at the terminal confirm a change.
package ask
