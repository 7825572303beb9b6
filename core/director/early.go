package director

import (
	"encoding/json"
)

// maxEarly bounds what is kept of work that came too early, in bytes.
const maxEarly = 64 << 10

func orRaw(raw, other json.RawMessage) json.RawMessage {
	if says(raw) {
		return raw
	}
	return other
}
