// Package handover keeps kairos-session-handover.txt, the file by which a
// person or another client finds the runs that can go on. It says where runs
// stand and nothing of what is in them: a pointer, not a credential, and the
// database is the truth.
package handover
