package main

import (
	"testing"

	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

func TestContract(t *testing.T) { drivertest.RunFile(t, definition(), "samples.json") }
