package protocol

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

const uriPrefix = "kairos://mem/"

// titleSpace is the UUIDv5 namespace of chain identifiers; it is part of the
// tool contract and never changes.
var titleSpace = uuid.MustParse("6f1d7e2b-8f7b-4b1e-9c8f-2f2f0b1a2e11")

var uriPattern = regexp.MustCompile(`(?i)^kairos://mem/([0-9a-f-]{36})$`)

// ChainID returns the identifier of the chain with the title: a UUIDv5, so that
// the same title is the same protocol in every store. Case and amount of white
// space do not matter.
func ChainID(title string) string {
	key := strings.ToLower(strings.Join(strings.Fields(title), " "))
	return uuid.NewSHA1(titleSpace, []byte(key)).String()
}

// URI returns the memory URI of a step's UUID.
func URI(id string) string { return uriPrefix + id }

// ParseURI returns the lower-case UUID of a memory URI. Its error names the
// expected form.
func ParseURI(s string) (string, error) {
	m := uriPattern.FindStringSubmatch(s)
	if m == nil {
		return "", fmt.Errorf("not a memory URI: %.80q (expected kairos://mem/<uuid>)", s)
	}
	return strings.ToLower(m[1]), nil
}

// SpaceName is what people call the space with the id: the last part of it, or "personal" for
// a user's own. Rules and conditions name a space so.
func SpaceName(id string) string {
	if strings.HasPrefix(id, "user:") {
		return "personal"
	}
	return id[strings.LastIndex(id, ":")+1:]
}
