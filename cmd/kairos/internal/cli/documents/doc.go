// Package documents reads the Markdown files that the arguments of a command name.
package documents
