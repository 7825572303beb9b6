// Package output prints results and errors: as text for people, and as JSON and
// YAML for programs. What others wrote cannot steer the terminal.
package output
