//go:build !unix

package metrics

import "time"

// processorTime is not known here.
func processorTime() time.Duration { return 0 }

// residentBytes is not known here.
func residentBytes() uint64 { return 0 }
