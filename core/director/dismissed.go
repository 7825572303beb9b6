package director

import (
	"time"
)

// A person who closes a dialog has decided nothing. They are asked again by the
// next call; after maxDismissals in a row they are left alone for
// dismissalPause, so that an agent that keeps calling does not keep asking.
const (
	maxDismissals  = 3
	dismissalPause = time.Minute
)
