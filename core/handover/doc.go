// Package handover writes kairos-session-handover.txt, the file in which a person
// or another client finds the runs that can be resumed. It records where runs
// stand and none of their content: it is a pointer, not a credential, and the
// database is the truth.
package handover
