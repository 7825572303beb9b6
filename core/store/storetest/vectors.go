package storetest

import "testing"

var vectorCases = map[string]func(*testing.T, Protocols){}
