// Package runs has the commands that look at runs, resume and end them.
package runs
