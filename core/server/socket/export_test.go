package socket

import "time"

// LooksEvery makes the server look for its socket so often.
func (s *Server) LooksEvery(d time.Duration) { s.look = d }
