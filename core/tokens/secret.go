package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"strings"

	"github.com/kairos-mcp/kairos/internal/hidden"
)

// Prefix begins every secret, so that programs which look for secrets in files find it:
// krs_[0-9A-Za-z]{49}.
const Prefix = "krs_"

// A secret is the prefix, 256 random bits and the CRC-32 of both, each as digits to the base
// of 62, with zeros in front.
const (
	base           = 62
	randomLength   = 43
	checksumLength = 6
	secretLength   = len(Prefix) + randomLength + checksumLength
)

// Secret is what the holder of a token shows.
type Secret = hidden.Text

func newSecret() Secret {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	text := Prefix + digits(new(big.Int).SetBytes(random[:]), randomLength)
	return Secret(text + checksum(text))
}

// wellFormed reports whether the secret has the form of one, with the right checksum. A typing
// error shows here, without the database.
func wellFormed(s Secret) bool {
	if len(s) != secretLength || !strings.HasPrefix(string(s), Prefix) {
		return false
	}
	text, sum := s[:secretLength-checksumLength], s[secretLength-checksumLength:]
	return checksum(string(text)) == string(sum)
}

func hashOf(s Secret) Hash { return sha256.Sum256([]byte(s)) }

func checksum(text string) string {
	return digits(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(text)))), checksumLength)
}

func digits(n *big.Int, length int) string {
	text := n.Text(base)
	return strings.Repeat("0", length-len(text)) + text
}
