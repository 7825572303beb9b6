package qdrant

import (
	"encoding/json"
	"fmt"
	"time"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

const (
	// versionsKept is how many versions of a chain can be read, the newest ones.
	versionsKept = 100
	// formerKept is how many removed steps a chain keeps, the newest ones.
	formerKept = 50_000
	// titleKeyBytes is the length of the prefix of a title that fits exactly into a
	// float, the type by which the server compares.
	titleKeyBytes = 6
)

// manifest is the point that describes a chain. It has the fields that were read.
type manifest struct {
	key            string // id of the point
	kind           string
	space, chainID string
	title          string
	revision       int64
	token          string
	document       string
	outline        string
	steps, former  []string
	log            []revision
	lock           string
	lockUntil      int64 // Unix milliseconds
}

// revision is one entry of a chain's log, the newest one first. Token finds the
// version point once the revision is replaced.
type revision struct {
	Number  int64  `json:"revision"`
	Token   string `json:"token"`
	Title   string `json:"title"`
	Steps   int    `json:"steps"`
	ModelID string `json:"model,omitempty"`
	Saved   int64  `json:"saved"` // Unix nanoseconds
	Deleted bool   `json:"deleted,omitempty"`
}

func (r revision) version() library.Version {
	return library.Version{
		Revision: r.Number, Title: r.Title, StepCount: r.Steps, ModelID: r.ModelID, SavedAt: time.Unix(0, r.Saved).UTC(), Deleted: r.Deleted,
	}
}

func versionID(token, key string) string { return pointID(kindVersion, token, key) }

// stateFields are the fields of a manifest that a save needs.
var stateFields = []string{
	fieldKind, fieldSpace, fieldChainID, fieldTitle, fieldRevision, fieldToken, fieldDocument, fieldOutline, fieldSteps, fieldFormer, fieldLog,
	fieldLock, fieldLockUntil,
}

func (s *server) manifestOf(p *pb.RetrievedPoint) (manifest, error) {
	v := p.GetPayload()
	m := manifest{
		key: p.GetId().GetUuid(), kind: v[fieldKind].GetStringValue(), space: v[fieldSpace].GetStringValue(), chainID: v[fieldChainID].GetStringValue(),
		title: v[fieldTitle].GetStringValue(), revision: v[fieldRevision].GetIntegerValue(), token: v[fieldToken].GetStringValue(),
		document: v[fieldDocument].GetStringValue(), outline: v[fieldOutline].GetStringValue(),
		steps: textsOf(v[fieldSteps]), former: textsOf(v[fieldFormer]),
		lock: v[fieldLock].GetStringValue(), lockUntil: v[fieldLockUntil].GetIntegerValue(),
	}
	if log := v[fieldLog].GetStringValue(); log != "" {
		if err := json.Unmarshal([]byte(log), &m.log); err != nil {
			return m, s.damaged(m.key, err)
		}
	}
	return m, nil
}

func (s *server) damaged(key string, err error) error {
	return fault.Wrap(err, fault.StoreFailed, "Qdrant at %s, collection %s: point %s is damaged", s.at, s.names.protocols(), key)
}

// chain decodes a document or an outline of the manifest.
func (s *server) chain(m manifest, document string) (protocol.Chain, error) {
	var c protocol.Chain
	if err := json.Unmarshal([]byte(document), &c); err != nil {
		return c, s.damaged(m.key, fmt.Errorf("decode the chain: %w", err))
	}
	return c, nil
}

// live reports whether the chain exists.
func (m manifest) live() bool { return m.kind == kindManifest }

// stored is the revision that a change must replace.
func (m manifest) stored() int64 {
	if m.live() {
		return m.revision
	}
	return 0
}

// locked reports whether a save of several chains has reserved the point.
func (m manifest) locked(now time.Time) bool {
	return m.lock != "" && m.lockUntil > now.UnixMilli() && m.lockUntil <= lastLock(now).UnixMilli()
}

// lastLock is the latest valid end of a reservation. A later one was made before a
// clock was set back.
func lastLock(now time.Time) time.Time { return now.Add(lockTime + clockMargin) }

// reserved matches reserved points.
func reserved(now time.Time) *pb.Condition {
	return pb.NewRange(fieldLockUntil, &pb.Range{
		Gt: pb.PtrOf(float64(now.UnixMilli())), Lte: pb.PtrOf(float64(lastLock(now).UnixMilli())),
	})
}

// wrote reports whether the save with the token was committed, even if others have
// followed.
func (m manifest) wrote(token string) bool {
	if m.token == token && m.kind != kindPlaceholder {
		return true
	}
	for _, r := range m.log {
		if r.Token == token {
			return true
		}
	}
	return false
}

// point is the manifest as it is stored.
func (m manifest) point(now time.Time) (*pb.PointStruct, error) {
	log, err := encode(m.log)
	if err != nil {
		return nil, fmt.Errorf("encode the history of %s: %w", m.title, err)
	}
	return &pb.PointStruct{Id: pb.NewID(m.key), Vectors: noVectors(), Payload: payload{
		fieldKind: text(m.kind), fieldSpace: text(m.space), fieldChainID: text(m.chainID), fieldTitle: text(m.title),
		fieldTitleKey: number(titleKey(m.title)), fieldRevision: number(m.revision), fieldToken: text(m.token),
		fieldSteps: texts(m.steps), fieldFormer: texts(m.former), fieldDocument: text(m.document), fieldOutline: text(m.outline),
		fieldLog: text(log), fieldWritten: number(now.UnixMilli()),
	}}, nil
}

func noVectors() *pb.Vectors { return pb.NewVectorsMap(map[string]*pb.Vector{}) }

// titleKey is a number with the order of the first bytes of the title.
func titleKey(title string) int64 {
	var key int64
	for i := range titleKeyBytes {
		key <<= 8
		if i < len(title) {
			key |= int64(title[i])
		}
	}
	return key
}

// unlocked matches the manifest as it was read, unless another save has reserved
// it.
func unlocked(m manifest, now time.Time) *pb.Filter {
	return &pb.Filter{
		Must:    []*pb.Condition{pb.NewHasID(pb.NewID(m.key)), is(fieldToken, m.token)},
		MustNot: []*pb.Condition{reserved(now)},
	}
}

// lockedBy matches a manifest that the save with the token has reserved.
func lockedBy(key, token string) *pb.Filter {
	return all(pb.NewHasID(pb.NewID(key)), is(fieldLock, token))
}
