package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

const (
	maxBody  = 1 << 20          // bytes of a request
	readTime = 10 * time.Second // for a request
)

// NewHandler serves all operations to the operator of this machine, as the caller that as
// returns. It is for the unix socket, which checks its peers.
func NewHandler(e Engine, m Machine, as func(Operation) access.Caller) http.Handler {
	mux := http.NewServeMux()
	for _, o := range Table {
		handle(mux, o.Declaration, func(ctx context.Context, arguments []byte) (any, error) { return o.Reply(ctx, e, as(o), arguments) })
	}
	machine(mux, as, ShowServer, m.show)
	machine(mux, as, ServerLogs, m.serverLogs)
	machine(mux, as, ListDrivers, m.list)
	machine(mux, as, DriverLogs, m.driverLogs)
	machine(mux, as, ReloadDrivers, m.reload)
	machine(mux, as, RollbackDrivers, m.rollback)
	machine(mux, as, LoginLink, m.LoginLink)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, fault.New(fault.NotFound, "there is no operation %s %s", r.Method, r.URL.Path))
	})
	return mux
}

func machine[Request, Reply any](mux *http.ServeMux, as func(Operation) access.Caller, t api.Tool[Request, Reply], use func(context.Context, Request) (Reply, error)) {
	handle(mux, t.Declaration, func(ctx context.Context, arguments []byte) (any, error) {
		in, err := toolset.Decode[Request](arguments)
		if err != nil {
			return nil, err
		}
		return use(access.WithCaller(ctx, as(Operation{})), in)
	})
}

func handle(mux *http.ServeMux, d api.Declaration, reply func(ctx context.Context, arguments []byte) (any, error)) {
	mux.HandleFunc("POST "+d.Path(), func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(readTime)) // a recorder in a test has none
		arguments, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		_ = control.SetReadDeadline(time.Time{}) // else the call would end with it
		if err != nil {
			refuse(w, fault.New(fault.InvalidArgument, "read the request: %v", err))
			return
		}
		out, err := reply(r.Context(), arguments)
		if err != nil {
			refuse(w, err)
			return
		}
		b, err := api.EncodeReply(out)
		if err != nil {
			refuse(w, fmt.Errorf("encode the reply: %w", err))
			return
		}
		write(w, http.StatusOK, b)
	})
}

// refuse replies with the whole error: the operator may see all of it.
func refuse(w http.ResponseWriter, err error) {
	var f *fault.Error
	var undecoded *toolset.ArgumentsError
	switch {
	case errors.As(err, &undecoded):
		f = fault.New(fault.InvalidArgument, "%v", err)
	case !errors.As(err, &f):
		f = fault.New(fault.Internal, "%v", err)
	}
	fields := f.Reply("")
	fields["error"] = f.Code
	b, err := api.EncodeReply(fields)
	if err != nil {
		b = []byte(`{"error":"INTERNAL","message":"the error could not be encoded"}`)
	}
	status := fault.RowOf(f.Code).Status
	if status/100 == 2 || status == 0 {
		status = http.StatusConflict
	}
	write(w, status, b)
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that hung up needs no reply
}
