// Package tree has the commands that check and explain the decision tree.
package tree
