// Package output prints results and errors: as text for people, and as JSON and
// YAML for programs. Texts of others cannot steer the terminal.
package output
