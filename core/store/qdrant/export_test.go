package qdrant

import pb "github.com/qdrant/go-client/qdrant"

// OpenMigrated is Open by a program of a later schema version, to which the
// migrations lead.
func OpenMigrated(o Options, m ...func(*pb.PointStruct) (*pb.PointStruct, error)) (*Store, error) {
	return openWith(o, nil, m)
}

// Plain reads payloads as a program that looks into Qdrant itself would.
var Plain = plain
