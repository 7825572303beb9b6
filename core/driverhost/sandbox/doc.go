// Package sandbox starts processes that see a list of files and folders and nothing
// else: in namespaces with a root of their own, by rules of Landlock, or both. It
// knows nothing about drivers; the caller chooses the files and the way.
package sandbox
