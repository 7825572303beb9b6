package main

// Run is the program with its arguments.
var Run = run
