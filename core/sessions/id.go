// Package sessions makes and reads the ids of MCP sessions over HTTP, which hold what a
// server must know to continue a session that it has never seen, and keeps which sessions
// were ended. It holds no session itself.
package sessions

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/seal"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// label separates this use of the keys from any other, and names the layout of the content.
const label = "kairos session 1"

// MaxID limits an id, in bytes: hosts put it into a header, and proxies limit those.
const MaxID = 512

// Separator is between the id of the replica that began a session and the rest of the id.
const Separator = "."

// Limits of what an id keeps of its client, in bytes. The rest of MaxID is for capabilities.
const (
	maxEra, maxName, maxVersion = 16, 64, 32
)

// ErrUnknown is returned for an id that is not of a session of the principal.
var ErrUnknown = errors.New("no such session")

// Session is what an id says.
type Session struct {
	Key string // names the session in records; nobody can tell the id from it
	// Client is without the transport. It has the capabilities that ids keep: an absent one
	// counts as not declared.
	Client  driver.Client
	Expires time.Time
}

// IDs makes ids and opens them. It is safe for concurrent use.
type IDs struct {
	seal         seal.Sealer
	clock        *clock.Clock
	lifetime     time.Duration
	replica      string
	capabilities func() []string
}

// Config of IDs. Keys, Clock and Lifetime are required.
type Config struct {
	// Keys seal ids and open them; see seal.New.
	Keys     func() ([][32]byte, error)
	Clock    *clock.Clock
	Lifetime time.Duration
	// Replica, if set, stands in front of the ids.
	Replica string
	// Capabilities, if set, returns the JSON pointers of further capabilities that ids keep,
	// those that matter most first. The ones that MCP names are always kept.
	Capabilities func() []string
}

// New returns IDs. The keys are fetched at the first use.
func New(c Config) IDs {
	return IDs{seal: seal.New(label, c.Keys), clock: c.Clock, lifetime: c.Lifetime, replica: c.Replica, capabilities: c.Capabilities}
}

// New returns the id of a new session of the principal. Its error is why there are no keys.
func (i IDs) New(principal string, c driver.Client) (id string, s Session, err error) {
	s.Expires = i.clock.Now().Add(i.lifetime)
	text, err := i.seal.Seal(i.content(principal, c, s.Expires))
	if err != nil {
		return "", Session{}, err
	}
	if i.replica != "" {
		text = i.replica + Separator + text
	}
	s.Key, s.Client = Key(text), c
	return text, s, nil
}

// Open reads the id of a session of the principal. The error is ErrUnknown, or why there are
// no keys.
func (i IDs) Open(id, principal string) (Session, error) {
	if len(id) > MaxID {
		return Session{}, ErrUnknown
	}
	sealed := id
	if _, after, marked := strings.Cut(id, Separator); marked {
		sealed = after
	}
	content, err := i.seal.Open(sealed)
	if errors.Is(err, seal.ErrNotSealed) {
		return Session{}, ErrUnknown
	}
	if err != nil {
		return Session{}, err
	}
	owner, s, ok := read(content)
	if mine := hashed(principal); !ok || subtle.ConstantTimeCompare(owner[:], mine[:]) != 1 || !i.alive(s.Expires) {
		return Session{}, ErrUnknown
	}
	s.Key = Key(id)
	return s, nil
}

// alive reports whether an id may still be used. One that expires later than a new one was
// made before the clock was set back, and nobody knows how old it is.
func (i IDs) alive(expires time.Time) bool {
	left := expires.Sub(i.clock.Now())
	return left > 0 && left <= i.lifetime+clock.Tolerance
}

// Key returns the name of a session in records. The mark of a replica in front is not part
// of it, because everybody can change that.
func Key(id string) string {
	if _, after, marked := strings.Cut(id, Separator); marked {
		id = after
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// hashed is the principal in an id: of the same length for all, and enough to compare.
func hashed(principal string) [16]byte {
	sum := sha256.Sum256([]byte(principal))
	return [16]byte(sum[:16])
}

// content writes what an id says: the principal, the second at which it expires, the
// capabilities that MCP names, and texts with their lengths.
func (i IDs) content(principal string, c driver.Client, expires time.Time) []byte {
	owner := hashed(principal)
	b := binary.AppendUvarint(owner[:], uint64(max(0, expires.Unix())))
	b = append(b, flags(c))
	for _, text := range []string{clipped(c.Era, maxEra), clipped(c.Name, maxName), clipped(c.Version, maxVersion)} {
		b = appendText(b, text)
	}
	if i.capabilities == nil {
		return b
	}
	for _, pointer := range i.capabilities() {
		if isNamed(pointer) || !c.Declares(pointer) {
			continue
		}
		if more := appendText(b, pointer); i.fits(len(more)) {
			b = more
		}
	}
	return b
}

// fits reports whether an id with so many bytes of content is short enough. Its seal adds 28.
func (i IDs) fits(content int) bool {
	return len(i.replica)+len(Separator)+(content+28+2)/3*4 <= MaxID
}

// read reads what content has written.
func read(b []byte) (owner [16]byte, s Session, ok bool) {
	if len(b) < len(owner) {
		return owner, s, false
	}
	copy(owner[:], b)
	b = b[len(owner):]
	seconds, n := binary.Uvarint(b)
	if n <= 0 || len(b) == n {
		return owner, s, false
	}
	s.Expires = time.Unix(int64(seconds), 0) //nolint:gosec // was made of an int64
	declared := b[n]
	texts, ok := readTexts(b[n+1:])
	if !ok || len(texts) < 3 {
		return owner, s, false
	}
	s.Client = client(declared, texts[3:])
	s.Client.Era, s.Client.Name, s.Client.Version = texts[0], texts[1], texts[2]
	return owner, s, true
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func readTexts(b []byte) (texts []string, ok bool) {
	for len(b) > 0 {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, false
		}
		end := n + int(size) //nolint:gosec // less than len(b)
		texts = append(texts, string(b[n:end]))
		b = b[end:]
	}
	return texts, true
}

func clipped(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
