package director

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kairos-mcp/kairos/core/run"
)

// linkLabel separates this use of the key from any other and names the layout of
// secrets: change it with the layout.
const linkLabel = "kairos approval link 1"

// linkSecrets makes the secrets of links and knows them again.
type linkSecrets struct{ keys func() ([][]byte, error) }

// linkKeys returns the keys that secrets of links are made from: the first one makes
// them, and the others are known still.
func linkKeys(secrets func() ([][32]byte, error)) func() ([][]byte, error) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	return func() ([][]byte, error) {
		all := [][32]byte{random}
		if secrets != nil {
			var err error
			if all, err = secrets(); err != nil {
				return nil, fmt.Errorf("read the keys of approval links: %w", err)
			}
		}
		if len(all) == 0 {
			return nil, errors.New("there is no state key to make approval links from")
		}
		keys := make([][]byte, len(all))
		for i, secret := range all {
			var err error
			if keys[i], err = hkdf.Key(sha256.New, secret[:], nil, linkLabel, 32); err != nil {
				return nil, fmt.Errorf("derive the key of approval links: %w", err)
			}
		}
		return keys, nil
	}
}

// use is what a link is good for.
type use byte

const (
	toAnswer use = 'a'
	toRead   use = 'r'
)

// linkSecret is the last part of a link: its number, and a keyed hash of run, number and use.
func linkSecret(key []byte, id run.ID, number int64, u use) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(binary.BigEndian.AppendUint64([]byte{byte(u)}, uint64(number))) // #nosec G115 -- one to one
	mac.Write([]byte(id))
	return strconv.FormatInt(number, 10) + "-" + hex.EncodeToString(mac.Sum(nil)[:16])
}

// secretOf is the secret of a link as it is made now.
func (ls linkSecrets) secretOf(id run.ID, number int64, u use) (string, error) {
	keys, err := ls.keys()
	if err != nil {
		return "", err
	}
	return linkSecret(keys[0], id, number, u), nil
}

// linkOf is the number of the link with the secret, and what it is good for; false: this
// server has not made it. It reads nothing of the run, so that it takes the same
// time whether the run exists or not.
func (ls linkSecrets) linkOf(id run.ID, secret string) (number int64, u use, ok bool, err error) {
	keys, err := ls.keys()
	if err != nil {
		return 0, 0, false, err
	}
	before, _, _ := strings.Cut(secret, "-")
	if number, err = strconv.ParseInt(before, 10, 64); err != nil {
		number = 0 // of no link
	}
	for _, key := range keys {
		for _, good := range []use{toAnswer, toRead} {
			if subtle.ConstantTimeCompare([]byte(linkSecret(key, id, number, good)), []byte(secret)) == 1 {
				u, ok = good, true
			}
		}
	}
	return number, u, ok, nil
}
