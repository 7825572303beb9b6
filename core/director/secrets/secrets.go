// Package secrets makes what nobody but this server can make: the secrets of approval links
// and the idempotency keys of drivers' calls. It keeps none of them.
package secrets

import (
	"cmp"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/run"
)

// Labels separate the uses of a key from each other and name the layout of what is made:
// change them with it.
const (
	callLabel = "kairos idempotency key 1"
	linkLabel = "kairos approval link 1"
)

// Secrets is safe for concurrent use.
type Secrets struct {
	keys    func() (derived, error)
	address func(id run.ID, secret string) string // may be nil
}

// derived are the keys of each use.
type derived struct {
	call  []byte
	links [][]byte // the first one makes secrets, and those of the others are known still
}

// New returns the secrets that are made from the server's keys, of which the first one makes
// them; nil: from a random one. They are read once, when they are needed. address is that of a
// link, empty where no page is served; nil: nowhere.
func New(keys func() ([][32]byte, error), address func(id run.ID, secret string) string) Secrets {
	return Secrets{keys: cache.Once(func() (derived, error) { return derive(keys) }), address: address}
}

func derive(keys func() ([][32]byte, error)) (d derived, err error) {
	all := make([][32]byte, 1)
	if keys == nil {
		_, _ = rand.Read(all[0][:]) // never fails
	} else if all, err = keys(); err == nil && len(all) == 0 {
		err = errors.New("there is none")
	}
	if err != nil {
		return d, fmt.Errorf("read the keys of approval links and drivers' calls: %w", err)
	}
	if d.call, err = hkdf.Key(sha256.New, all[0][:], nil, callLabel, 32); err != nil {
		return d, fmt.Errorf("derive the key of drivers' calls: %w", err)
	}
	for _, key := range all {
		link, err := hkdf.Key(sha256.New, key[:], nil, linkLabel, 32)
		if err != nil {
			return d, fmt.Errorf("derive the key of approval links: %w", err)
		}
		d.links = append(d.links, link)
	}
	return d, nil
}

// callKeys writes keys as letters and digits, because drivers pass them to programs,
// which take a word that begins with a hyphen for an option.
var callKeys = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// CallKey is the idempotency key of the call that the parts tell from all others. It is a
// keyed hash, so that it reveals none of them.
func (s Secrets) CallKey(parts ...any) (string, error) {
	keys, err := s.keys()
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("make an idempotency key: %w", err)
	}
	mac := hmac.New(sha256.New, keys.call)
	mac.Write(b)
	return callKeys.EncodeToString(mac.Sum(nil)), nil
}

// Use is what a link is good for.
type Use byte

// The uses.
const (
	ToAnswer Use = 'a'
	ToRead   Use = 'r'
)

// ofLink is the last part of a link: its number, and a keyed hash of run, number and use.
func ofLink(key []byte, id run.ID, number int64, u Use) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(binary.BigEndian.AppendUint64([]byte{byte(u)}, uint64(number))) // #nosec G115 -- one to one
	mac.Write([]byte(id))
	return strconv.FormatInt(number, 10) + "-" + hex.EncodeToString(mac.Sum(nil)[:16])
}

// Link is the number of the link with the secret, and what it is good for; false: this
// server has not made it. It reads nothing of the run, so that it takes the same
// time whether the run exists or not.
func (s Secrets) Link(id run.ID, secret string) (number int64, u Use, ok bool, err error) {
	keys, err := s.keys()
	if err != nil {
		return 0, 0, false, err
	}
	before, _, _ := strings.Cut(secret, "-")
	if number, err = strconv.ParseInt(before, 10, 64); err != nil {
		number = 0 // of no link
	}
	for _, key := range keys.links {
		for _, good := range []Use{ToAnswer, ToRead} {
			if subtle.ConstantTimeCompare([]byte(ofLink(key, id, number, good)), []byte(secret)) == 1 {
				u, ok = good, true
			}
		}
	}
	return number, u, ok, nil
}

// unserved is shown for the address of a link where this server has no page.
const unserved = "(this server has no approval page)"

// pairs are the marks of a link, each followed by what is shown for it; a mark that begins with
// another comes first. Where there is no address, shown takes its place.
func (s Secrets) pairs(id run.ID, l *run.ApprovalLink, shown string) ([]string, error) {
	keys, err := s.keys()
	if err != nil {
		return nil, err
	}
	var pairs []string
	for _, link := range []struct {
		mark string
		use  Use
	}{{l.ReadMark(), ToRead}, {l.Mark, ToAnswer}} {
		secret, at := ofLink(keys.links[0], id, l.Number, link.use), ""
		if s.address != nil {
			at = s.address(id, secret)
		}
		if at = cmp.Or(at, shown); at != "" {
			pairs = append(pairs, run.AddressMark(link.mark), at)
		}
		pairs = append(pairs, link.mark, secret)
	}
	return pairs, nil
}

// Reveal puts the addresses and secrets of the run's link where its marks stand. The link may be nil.
func (s Secrets) Reveal(id run.ID, l *run.ApprovalLink, text string) (string, error) {
	if l == nil || !strings.Contains(text, l.Mark) {
		return text, nil
	}
	pairs, err := s.pairs(id, l, unserved)
	return strings.NewReplacer(pairs...).Replace(text), err
}

// Conceal puts the marks of the run's link where its addresses and secrets stand. The link may be nil.
func (s Secrets) Conceal(id run.ID, l *run.ApprovalLink, text string) (string, error) {
	if l == nil {
		return text, nil
	}
	pairs, err := s.pairs(id, l, "")
	slices.Reverse(pairs)
	return strings.NewReplacer(pairs...).Replace(text), err
}
