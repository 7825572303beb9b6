package qdrant_test

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"

	pb "github.com/qdrant/go-client/qdrant"
	"go.uber.org/goleak"

	"github.com/google/uuid"

	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

// dialed gives the server's own client, to see what the store has written.
func dialed(t testing.TB, address string) *pb.Client {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatalf("address %q: %v", address, err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatalf("address %q: %v", address, err)
	}
	c, err := pb.NewClient(&pb.Config{Host: host, Port: n, PoolSize: 1, SkipCompatibilityCheck: true})
	if err != nil {
		t.Fatalf("NewClient(%s) = %v", address, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// collection is a name that no other test uses; what it leads to is removed
// with the test.
func collection(t testing.TB, address string) string {
	t.Helper()
	name := "t" + uuid.NewString()
	t.Cleanup(func() { dropAll(t, address, name) })
	return name
}

func dropAll(t testing.TB, address, name string) {
	t.Helper()
	c := dialed(t, address)
	ctx := context.Background()
	all, err := c.ListCollections(ctx)
	if err != nil {
		t.Logf("list collections to remove: %v", err)
	}
	for _, found := range all {
		if len(found) >= len(name) && found[:len(name)] == name {
			if err := c.DeleteCollection(ctx, found); err != nil {
				t.Logf("remove collection %s: %v", found, err)
			}
		}
	}
}

func open(t testing.TB, o qdrant.Options) *qdrant.Store {
	t.Helper()
	s, err := qdrant.Open(o, nil)
	if err != nil {
		t.Fatalf("Open(%s) = %v, want nil", o.URL, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
	})
	return s
}

// suite is the collection of the contract suite, emptied for each case: making
// one takes the server as long as a hundred cases.
var suite struct {
	once sync.Once
	name string
}

func TestStoreContract(t *testing.T) {
	address := qdranttest.Start(t)
	suite.once.Do(func() { suite.name = "suite" + uuid.NewString() })
	t.Cleanup(func() { dropAll(t, address, suite.name) })
	c := dialed(t, address)
	storetest.RunProtocols(t, func(t *testing.T) storetest.Protocols {
		empty(t, c, suite.name)
		s, err := qdrant.Open(qdrant.Options{URL: address, Collection: suite.name}, nil)
		if err != nil {
			t.Fatalf("Open = %v, want nil", err)
		}
		return s
	})
}

// empty removes all points, if there is anything yet.
func empty(t testing.TB, c *pb.Client, name string) {
	t.Helper()
	all, err := c.ListCollections(t.Context())
	if err != nil {
		t.Fatalf("ListCollections = %v", err)
	}
	for _, found := range all {
		if len(found) < len(name) || found[:len(name)] != name {
			continue
		}
		if _, err := c.Delete(t.Context(), &pb.DeletePoints{CollectionName: found, Wait: pb.PtrOf(true), Points: pb.NewPointsSelectorFilter(&pb.Filter{
			MustNot: []*pb.Condition{pb.NewMatchKeyword("kind", "index")},
		})}); err != nil {
			t.Fatalf("Delete = %v", err)
		}
	}
}
