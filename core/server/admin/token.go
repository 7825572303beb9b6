package admin

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
)

const tokenSuffix = ".token"

// TokenFile is the file beside a socket that holds the token of the server: every request
// to the socket needs it, and every call of operators over HTTP. Drivers cannot read it
// where they are isolated.
func TokenFile(socket string) string { return strings.TrimSuffix(socket, socketSuffix) + tokenSuffix }

// Token returns the token of the server with the socket.
func Token(socket string) (string, error) {
	b, err := os.ReadFile(TokenFile(socket))
	if err != nil {
		return "", fmt.Errorf("read the token of the server at %s: %w", socket, err)
	}
	return strings.TrimSpace(string(b)), nil
}

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

// randomToken is the token of one start of a server.
func randomToken() ([]string, error) { return []string{rand.Text()}, nil }

// authorize adds the token of a socket to a request.
func authorize(req *http.Request, socket string) error {
	token, err := Token(socket)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", bearer+token)
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

// requireToken serves only requests that carry the token.
func (s *Server) requireToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.Authorize(r); err != nil {
			refuse(w, http.StatusUnauthorized, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
