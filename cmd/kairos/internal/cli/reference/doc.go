// Package reference finds the step or the protocol that an argument names.
package reference
