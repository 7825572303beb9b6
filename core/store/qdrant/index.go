package qdrant

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// Vectors of the index.
const (
	vectorWords = "words" // of a chain: its terms
	vectorDense = "dense" // of a step: the embedding of its passage
)

const (
	// indexLayout is the version of the points of the index. An index with another
	// layout is rebuilt.
	indexLayout = 2

	// pointsWritten and bytesWritten bound one request.
	pointsWritten = 2000
	bytesWritten  = 16 << 20
)

// analysed is a chain in the form of the index.
type analysed struct {
	document   string // search.Document, base64
	terms      []string
	vocabulary []string
}

func analyse(c protocol.Chain) analysed {
	d := search.Analyse(c)
	b, _ := d.AppendBinary(nil) // never fails
	return analysed{document: base64.StdEncoding.EncodeToString(b), terms: d.Terms(), vocabulary: d.Vocabulary()}
}

// bm25Options configure the server's ranking function for prepared terms: no
// stemming, no stop words, and independent of the length of a protocol.
var bm25Options = pb.NewValueMap(map[string]any{
	"language": "none", "tokenizer": "whitespace", "b": 0.0,
})

func bm25(terms []string) *pb.Document {
	return &pb.Document{Text: strings.Join(terms, " "), Model: "qdrant/bm25", Options: bm25Options}
}

// indexState describes an index.
type indexState struct {
	collection string
	model      string // of the embeddings; empty: none
	dimension  int
	analyser   int
	layout     int

	words vocabulary
}

// searchIndex reads and writes the search index that is in use.
type searchIndex struct {
	server *server
	state  atomic.Pointer[indexState]
	seen   atomic.Pointer[clock.Moment] // when state was read
}

// indexEntry is a chain to index.
type indexEntry struct {
	key, token string
	chain      protocol.Chain
	words      analysed
}

var indexFields = map[string]pb.FieldType{
	fieldKind: pb.FieldType_FieldTypeKeyword, fieldSpace: pb.FieldType_FieldTypeKeyword, fieldChainKey: pb.FieldType_FieldTypeKeyword,
	fieldToken: pb.FieldType_FieldTypeKeyword, fieldStep: pb.FieldType_FieldTypeKeyword, fieldPassage: pb.FieldType_FieldTypeKeyword,
	fieldWritten: pb.FieldType_FieldTypeInteger,
}

// indexCollection is the name of the collection of an index.
func (n names) indexCollection(model string, dimension, analyser int) string {
	return fmt.Sprintf("%s_index_%s", n.protocols(), pointID(model, strconv.Itoa(dimension), strconv.Itoa(analyser), strconv.Itoa(indexLayout))[:8])
}

var metaID = pointID(kindMeta)

// read returns the state of the index in use, or nil.
func (ix *searchIndex) read(ctx context.Context) (*indexState, error) {
	aliases, err := call(ctx, ix.server, ix.server.client.ListAliases)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(aliases, func(a *pb.AliasDescription) bool { return a.GetAliasName() == ix.server.names.index() }) {
		return nil, nil
	}
	return ix.readMeta(ctx)
}

func (ix *searchIndex) readMeta(ctx context.Context) (*indexState, error) {
	points, err := ix.server.get(ctx, ix.server.names.index(), []string{metaID}, "collection", "model", "dimension", "analyser", "layout")
	if err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, fault.New(fault.StoreFailed, "Qdrant at %s: collection %s is not a search index of this program", ix.server.at, ix.server.names.index())
	}
	v := points[0].GetPayload()
	return &indexState{
		collection: v["collection"].GetStringValue(), model: v["model"].GetStringValue(),
		dimension: int(v["dimension"].GetIntegerValue()), analyser: int(v["analyser"].GetIntegerValue()),
		layout: int(v["layout"].GetIntegerValue()),
	}, nil
}

// open finds the search index, creates it if there is none, and rebuilds it if its
// analyser or layout is outdated.
func (ix *searchIndex) open(ctx context.Context) error {
	found, err := ix.read(ctx)
	if err != nil {
		return err
	}
	if found == nil || found.analyser < search.Version || found.layout < indexLayout {
		next := indexState{analyser: search.Version, layout: indexLayout}
		if found != nil {
			next.model, next.dimension = found.model, found.dimension
		}
		return ix.rebuild(ctx, found, &next)
	}
	ix.use(found)
	return nil
}

func (ix *searchIndex) use(x *indexState) {
	if have := ix.state.Load(); have == nil || have.collection != x.collection {
		ix.state.Store(x)
	}
	now := ix.server.options.Clock.Moment()
	ix.seen.Store(&now)
}

// refresh detects an index that another process has built.
func (ix *searchIndex) refresh(ctx context.Context) error {
	found, err := ix.readMeta(ctx)
	if err != nil {
		return err
	}
	ix.use(found)
	return nil
}

// create makes the collection of an index, or completes it.
func (ix *searchIndex) create(ctx context.Context, x *indexState) error {
	x.collection = ix.server.names.indexCollection(x.model, x.dimension, x.analyser)
	dense := map[string]*pb.VectorParams{}
	if x.dimension > 0 {
		dense[vectorDense] = &pb.VectorParams{
			Size: uint64(x.dimension), Distance: pb.Distance_Cosine, OnDisk: pb.PtrOf(true), //nolint:gosec // the length of a vector
			QuantizationConfig: pb.NewQuantizationScalar(&pb.ScalarQuantization{
				Type: pb.QuantizationType_Int8, Quantile: pb.PtrOf(float32(0.99)), AlwaysRam: pb.PtrOf(true),
			}),
		}
	}
	if err := ix.server.createCollection(ctx, &pb.CreateCollection{
		CollectionName: x.collection, VectorsConfig: pb.NewVectorsConfigMap(dense),
		SparseVectorsConfig: pb.NewSparseVectorsConfig(map[string]*pb.SparseVectorParams{vectorWords: {Modifier: pb.Modifier_Idf.Enum()}}),
	}, indexFields); err != nil {
		return err
	}
	return ix.server.update(ctx, x.collection, upsert(&pb.PointStruct{Id: pb.NewID(metaID), Vectors: noVectors(), Payload: payload{
		fieldKind: text(kindMeta), "collection": text(x.collection), "model": text(x.model), "dimension": number(int64(x.dimension)),
		"analyser": number(int64(x.analyser)), "layout": number(int64(x.layout)), fieldWritten: number(ix.server.options.Clock.Wall().UnixMilli()),
	}}))
}

// write adds chains to the index in use. Searches find them as soon as their
// manifests have their tokens.
func (ix *searchIndex) write(ctx context.Context, entries []indexEntry, now time.Time) (*indexState, error) {
	x := ix.state.Load()
	err := ix.writeEntries(ctx, ix.server.names.index(), x, entries, now)
	if fault.CodeOf(err) == fault.StoreFailed {
		// Another process may have built an index with other vectors meanwhile.
		if refreshed := ix.refresh(ctx); refreshed == nil && ix.state.Load() != x {
			x = ix.state.Load()
			err = ix.writeEntries(ctx, ix.server.names.index(), x, entries, now)
		}
	}
	return x, err
}

// follow writes the entries again if another index has replaced the one they went
// to. A process that replaces an index reads the manifests afterwards, so every
// chain reaches the new index.
func (ix *searchIndex) follow(ctx context.Context, wrote *indexState, entries []indexEntry) error {
	if len(entries) == 0 {
		return nil
	}
	current, err := ix.readMeta(ctx)
	if err != nil || current.collection == wrote.collection {
		return err
	}
	ix.use(current)
	_, err = ix.write(ctx, entries, ix.server.options.Clock.Wall())
	return err
}

func (ix *searchIndex) writeEntries(ctx context.Context, collection string, x *indexState, entries []indexEntry, now time.Time) error {
	if len(entries) == 0 {
		return nil
	}
	vectors, err := ix.vectorsOf(ctx, collection, x, entries)
	if err != nil {
		return err
	}
	words := x.words.missing(entries)
	points := wordPoints(words, now)
	for _, e := range entries {
		points = append(points, e.points(x, now, vectors)...)
	}
	if err := ix.server.writePoints(ctx, collection, points); err != nil {
		return err
	}
	x.words.add(words)
	return nil
}

// points returns the points of a chain: one with its words and, if there are
// embeddings, one for each step.
func (e indexEntry) points(x *indexState, now time.Time, vectors map[string][]float32) []*pb.PointStruct {
	out := []*pb.PointStruct{e.chainPoint(now)}
	if x.dimension > 0 {
		for i := range e.chain.Steps {
			out = append(out, e.stepPoint(i, now, vectors))
		}
	}
	return out
}

// writePoints writes points in as many requests as their size needs.
func (s *server) writePoints(ctx context.Context, collection string, points []*pb.PointStruct) error {
	for len(points) > 0 {
		n, _ := requestOf(points)
		if err := s.update(ctx, collection, upsert(points[:n]...)); err != nil {
			return err
		}
		points = points[n:]
	}
	return nil
}

// requestOf returns how many of the points fit into one request, and their
// approximate size in bytes.
func requestOf(points []*pb.PointStruct) (n, size int) {
	for n < len(points) && n < pointsWritten && (n == 0 || size < bytesWritten) {
		size += sizeOf(points[n])
		n++
	}
	return n, size
}

// sizeOf is the approximate size of a point in a request, in bytes.
func sizeOf(p *pb.PointStruct) int {
	size := 200
	for _, v := range p.GetPayload() {
		size += len(v.GetStringValue())
	}
	for _, v := range p.GetVectors().GetVectors().GetVectors() {
		size += len(v.GetDocument().GetText()) + 4*len(v.GetDense().GetData())
	}
	return size
}

func (e indexEntry) chainPoint(now time.Time) *pb.PointStruct {
	return &pb.PointStruct{
		Id:      pb.NewID(chainPointID(e.token, e.key)),
		Vectors: pb.NewVectorsMap(map[string]*pb.Vector{vectorWords: pb.NewVectorDocument(bm25(e.words.terms))}),
		Payload: payload{
			fieldKind: text(kindChain), fieldSpace: text(e.chain.Space), fieldChainKey: text(e.key), fieldToken: text(e.token),
			fieldWords: text(e.words.document), fieldWritten: number(now.UnixMilli()),
		},
	}
}

func chainPointID(token, key string) string { return pointID(kindChain, token, key) }

func stepPointID(token, key string, i int) string {
	return pointID(kindStep, token, key, strconv.Itoa(i))
}

// stepPoint holds the vector of a step.
func (e indexEntry) stepPoint(i int, now time.Time, vectors map[string][]float32) *pb.PointStruct {
	c, step := e.chain, e.chain.Steps[i]
	hash := protocol.PassageHash(c.Passage(i))
	p := payload{
		fieldKind: text(kindStep), fieldSpace: text(c.Space), fieldChainKey: text(e.key), fieldToken: text(e.token), "step": number(int64(i)),
		fieldStep: text(step.UUID), fieldPassage: text(hash), fieldWritten: number(now.UnixMilli()),
	}
	at := map[string]*pb.Vector{}
	if v := vectors[hash]; v != nil {
		at[vectorDense] = pb.NewVectorDense(v)
	}
	return &pb.PointStruct{Id: pb.NewID(stepPointID(e.token, e.key, i)), Vectors: pb.NewVectorsMap(at), Payload: p}
}

// removeReplaced removes replaced chains from the index, given their tokens by
// key.
func (ix *searchIndex) removeReplaced(ctx context.Context, replaced map[string]string) error {
	var old []*pb.Condition
	for key, token := range replaced {
		old = append(old, nested(all(is(fieldChainKey, key), is(fieldToken, token))))
	}
	if len(old) == 0 {
		return nil
	}
	return ix.server.update(ctx, ix.server.names.index(), remove(anyOf(old...)))
}
