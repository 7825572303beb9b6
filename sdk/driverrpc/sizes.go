package driverrpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// IsTooLarge reports whether a call failed because its request or its result
// is larger than a message may be; see MaxMessageBytes.
func IsTooLarge(err error) bool { return status.Code(err) == codes.ResourceExhausted }
