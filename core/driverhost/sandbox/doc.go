// Package sandbox hides files from processes that this program starts: in a
// mount namespace, or with Landlock where the kernel grants none. It knows
// nothing about drivers; what to hide and which way to use is its caller's.
package sandbox
