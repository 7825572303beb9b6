package storetest

import "testing"

var ratingCases = map[string]func(*testing.T, Protocols){}
