package qdrant_test

func runChild() bool { return false }
