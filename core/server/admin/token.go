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

// TokenFile is the file beside a socket that holds the token every request
// needs. Drivers cannot read it where they are isolated.
func TokenFile(socket string) string { return strings.TrimSuffix(socket, socketSuffix) + tokenSuffix }

// makeToken writes a new token for a socket, mode 0600. The folder is locked.
func makeToken(socket string) (token string, err error) {
	path := TokenFile(socket)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("replace the admin token: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("write the admin token: %w", err)
	}
	token = rand.Text()
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("write the admin token: %w", err)
	}
	return token, nil
}

// authorize adds the token of a socket to a request.
func authorize(req *http.Request, socket string) error {
	b, err := os.ReadFile(TokenFile(socket))
	if err != nil {
		return fmt.Errorf("read the token of the server at %s: %w", socket, err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(b)))
	return nil
}

// requireToken serves only requests that carry the token.
func requireToken(token, file string, next http.Handler) http.Handler {
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			refuse(w, http.StatusUnauthorized, fmt.Errorf("the admin token is missing or wrong: send the content of %s as bearer token", file))
			return
		}
		next.ServeHTTP(w, r)
	})
}
