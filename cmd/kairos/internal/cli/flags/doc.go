// Package flags reads flags that several groups of commands have.
package flags
