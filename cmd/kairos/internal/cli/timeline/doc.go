// Package timeline prints what happened in a run.
package timeline
