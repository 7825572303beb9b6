package socket

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
)

const tokenSuffix = ".token"

// TokenFile is the file beside a socket that holds the token of the server, which every
// call of operators over HTTP needs. The socket itself needs none: it accepts the processes
// of its user. Drivers cannot read the file where they are isolated.
func TokenFile(socket string) string { return strings.TrimSuffix(socket, socketSuffix) + tokenSuffix }

// writeToken writes the token of a socket, mode 0600. The folder is locked.
func writeToken(socket, token string) error {
	path := TokenFile(socket)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the admin token: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the admin token: %w", err)
	}
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the admin token: %w", err)
	}
	return nil
}

const bearer = "Bearer "

// Authorize returns nil if a request carries the token of this server, and else where the
// token is. Without a token, before Listen or after it failed, no request is authorized.
func (s *Server) Authorize(r *http.Request) error {
	s.mu.Lock()
	tokens, failed := s.tokens, s.failed
	s.mu.Unlock()
	for _, token := range tokens {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(bearer+token)) == 1 {
			return nil
		}
	}
	if len(tokens) == 0 {
		return errors.Join(fmt.Errorf("the file %s with the token is not there yet", TokenFile(s.socket)), failed)
	}
	return fmt.Errorf("the token of the server is missing or wrong: send the content of %s, on the machine of the server, as Authorization: Bearer", TokenFile(s.socket))
}
