// Package sandbox hides files from processes that this program starts: in a
// mount namespace, or with Landlock where the kernel grants none. It knows
// nothing about drivers; the caller chooses the files and the way.
package sandbox
