// Package input knows the kinds of inputs that a step may need: when one is due,
// what is asked for, and what an answer to it comes to. It is pure: it reads the
// run and what the step demands, and neither stores nor calls anything. A kind
// is a value of the table in kind.go, so that the director names none.
package input
