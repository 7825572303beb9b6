package driverhost

import (
	"crypto/sha256"
	"encoding/json"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// maxRemembered is how many answers of one generation are kept, and
	// maxRememberedSize how large each may be, in bytes of JSON.
	maxRemembered     = 256
	maxRememberedSize = 16 << 10
)

// memory keeps the answers of a pure driver: the same request has the same answer. It
// ends with the generation, because another binary or configuration may answer
// differently.
type memory struct {
	answers *lru.Cache[memoryKey, []byte]
}

// memoryKey is the SHA-256 of a method and its request.
type memoryKey [sha256.Size]byte

func newMemory() memory {
	answers, err := lru.New[memoryKey, []byte](maxRemembered)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return memory{answers}
}

// keyOf returns false for a request that has no key.
func keyOf(method string, request any) (memoryKey, bool) {
	if request == nil {
		return memoryKey{}, false
	}
	b, err := json.Marshal(request)
	if err != nil {
		return memoryKey{}, false
	}
	return sha256.Sum256(append([]byte(method+"\n"), b...)), true
}

// recall returns a copy of the kept answer.
func recall[Res any](m memory, key memoryKey) (res Res, ok bool) {
	b, ok := m.answers.Get(key)
	if !ok || json.Unmarshal(b, &res) != nil {
		return res, false
	}
	return res, true
}

func (m memory) keep(key memoryKey, answer any) {
	b, err := json.Marshal(answer)
	if err == nil && len(b) <= maxRememberedSize {
		m.answers.Add(key, b)
	}
}
