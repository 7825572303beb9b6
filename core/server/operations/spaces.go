package operations

import (
	"context"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
)

// Spaces is the use case about spaces that operators make.
type Spaces interface {
	// CreateSpace makes a space and returns its id; it reports false if it was there.
	CreateSpace(ctx context.Context, c access.Caller, name string) (id string, created bool, err error)
}

// CreateSpace declares spaces_create.
var CreateSpace = api.Tool[CreateSpaceRequest, CreateSpaceReply]{Declaration: api.Declaration{
	Name: "spaces_create", Title: "Create a space", Idempotent: true,
	Description: "Create a space for protocols, which rules know by its name. One that is there stays as it is.",
}}

// CreateSpaceRequest names a space.
type CreateSpaceRequest struct {
	Name string `json:"name" doc:"Name of the space, such as production: lower-case letters, digits and -" min:"1"`
}

// CreateSpaceReply is the space.
type CreateSpaceReply struct {
	Name    string `json:"name"`
	SpaceID string `json:"space_id"`
	Created bool   `json:"created" doc:"false: it was there already"`
}

func createSpace(ctx context.Context, e Engine, c access.Caller, in CreateSpaceRequest) (CreateSpaceReply, error) {
	id, created, err := e.CreateSpace(ctx, c, in.Name)
	return CreateSpaceReply{in.Name, id, created}, err
}
