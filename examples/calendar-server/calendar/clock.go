package calendar

import (
	"fmt"
	"time"
)

// Clock is a time of day as the duration since midnight; "15:04" as text.
type Clock struct{ time.Duration }

func clock(hour, minute int) Clock {
	return Clock{time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute}
}

// MarshalText writes "15:04".
func (c Clock) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%02d:%02d", int(c.Hours()), int(c.Minutes())%60), nil
}

// UnmarshalText reads "15:04".
func (c *Clock) UnmarshalText(text []byte) error {
	t, err := time.Parse("15:04", string(text))
	if err != nil {
		return fmt.Errorf("time of day %q is not of the form 15:04", text)
	}
	*c = clock(t.Hour(), t.Minute())
	return nil
}
