//go:build !linux

package driverrpc

func protectMemory() {}
