//go:build !unix

package sqlite

import "errors"

func freeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }
