package relay

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// markHeader tells that a replica has passed a request on.
const markHeader = "Kairos-Passed-On"

// markLabel separates this use of the keys from any other, and names the layout.
const markLabel = "kairos passed-on request 1"

// markTime is how far the clocks of two replicas may be apart.
const markTime = 5 * time.Minute

// mark is what a replica vouches for when it passes a request on. It is bound to the
// method, the path and the session of the request.
type mark struct {
	to     string // id of the replica
	client string // address of the client; may be empty
	at     time.Time
}

func markKeys(shared [][32]byte) ([][]byte, error) {
	keys := make([][]byte, len(shared))
	for i, key := range shared {
		derived, err := hkdf.Key(sha256.New, key[:], nil, markLabel, 32)
		if err != nil {
			return nil, err
		}
		keys[i] = derived
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("there is no key that replicas share")
	}
	return keys, nil
}

// sum is the message authentication code of a mark of a request.
func (m mark) sum(key []byte, r *http.Request) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{m.to, m.client, strconv.FormatInt(m.at.Unix(), 10), r.Method, r.URL.EscapedPath(), r.Header.Get(sessionHeader)} {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return mac.Sum(nil)
}

// sign writes the mark of a request.
func (r *Relay) sign(m mark, req *http.Request) string {
	return strings.Join([]string{m.to, m.client, strconv.FormatInt(m.at.Unix(), 10), base64.RawURLEncoding.EncodeToString(m.sum(r.keys[0], req))}, " ")
}

// check reads the mark of a request, or says what is wrong with it.
func (r *Relay) check(text string, req *http.Request) (mark, error) {
	parts := strings.Split(text, " ")
	if len(parts) != 4 {
		return mark{}, fmt.Errorf("%s cannot be read", markHeader)
	}
	seconds, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return mark{}, fmt.Errorf("%s has no time", markHeader)
	}
	m := mark{to: parts[0], client: parts[1], at: time.Unix(seconds, 0)}
	sum, err := base64.RawURLEncoding.DecodeString(parts[3])
	if err != nil || !r.signed(m, req, sum) {
		return mark{}, fmt.Errorf("%s is not signed with a key that the replicas share", markHeader)
	}
	if age := time.Since(m.at).Abs(); age > markTime {
		return mark{}, fmt.Errorf("%s is %s old: the clocks of the replicas differ", markHeader, age.Round(time.Second))
	}
	return m, nil
}

func (r *Relay) signed(m mark, req *http.Request, sum []byte) bool {
	for _, key := range r.keys {
		if hmac.Equal(sum, m.sum(key, req)) {
			return true
		}
	}
	return false
}

type passedOnKey struct{}

// passedOn reports whether another replica has passed the request on.
func passedOn(r *http.Request) bool { return r.Context().Value(passedOnKey{}) != nil }

// Accept takes requests that other replicas pass on as what they are: those of the
// client, by its address. It comes before all other guards. A mark that no replica has
// made is refused, so that nobody can claim the address of another client.
func (r *Relay) Accept(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		text := req.Header.Values(markHeader)
		if len(text) == 0 {
			next.ServeHTTP(w, req)
			return
		}
		m, err := r.check(strings.Join(text, ","), req)
		if err != nil {
			r.log.WarnContext(req.Context(), "a request that claims to be passed on is refused", "from", req.RemoteAddr, "error", err)
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		// One for another replica is for the server that had this address before, which has
		// ended: this one takes the session over.
		req = req.WithContext(context.WithValue(req.Context(), passedOnKey{}, true))
		if ip, err := netip.ParseAddr(m.client); err == nil {
			req.RemoteAddr = netip.AddrPortFrom(ip, 0).String()
		}
		for _, name := range []string{markHeader, "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
			req.Header.Del(name)
		}
		next.ServeHTTP(w, req)
	})
}
