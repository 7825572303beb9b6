package storetest

import "testing"

var historyCases = map[string]func(*testing.T, Protocols){}
