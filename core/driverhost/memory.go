package driverhost

import (
	"crypto/sha256"

	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// maxRemembered is how many bytes of answers are kept of one generation: those of about
// 5,000 steps.
const maxRemembered = 8 << 20

// memory keeps the answers of a pure driver: the same request has the same answer. It
// ends with the generation, because another binary or configuration may answer
// differently.
type memory struct {
	answers *cache.Cache[memoryKey, []byte]
}

// memoryKey is the SHA-256 of a method and its request.
type memoryKey [sha256.Size]byte

func newMemory() memory {
	return memory{cache.New[memoryKey, []byte](maxRemembered)}
}

// keyOf returns false for a request that has no key.
func keyOf(method string, request any) (memoryKey, bool) {
	if request == nil {
		return memoryKey{}, false
	}
	b, err := driverrpc.Marshal(request)
	if err != nil {
		return memoryKey{}, false
	}
	h := sha256.New()
	h.Write([]byte(method + "\n"))
	h.Write(b)
	return memoryKey(h.Sum(nil)), true
}

// recall returns a copy of the kept answer.
func recall[Res any](m memory, key memoryKey) (res Res, ok bool) {
	b, ok := m.answers.Get(key)
	if !ok || driverrpc.Unmarshal(b, &res) != nil {
		return res, false
	}
	return res, true
}

func (m memory) keep(key memoryKey, answer any) {
	if b, err := driverrpc.Marshal(answer); err == nil {
		m.answers.Put(key, b, len(key)+len(b))
	}
}
