package driverrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Attachment is a driver that somebody else started and that a host in dev
// mode attaches to.
type Attachment struct {
	Name    string `json:"name"`    // the driver's, as in its descriptor
	Address string `json:"address"` // absolute path of a unix socket
	PID     int    `json:"pid"`     // 0: not known
}

// ParseAttachments reads the value of AttachEnv: a JSON array of attachments,
// each driver at most once. The empty string is none.
func ParseAttachments(env string) ([]Attachment, error) {
	if env == "" {
		return nil, nil
	}
	var all []Attachment
	if err := json.Unmarshal([]byte(env), &all); err != nil {
		return nil, fmt.Errorf("%s: want a JSON array such as the line that %s prints: %w", AttachEnv, DebugFlag, err)
	}
	var errs []error
	seen := map[string]bool{}
	for i, a := range all {
		switch {
		case !namePattern.MatchString(a.Name):
			errs = append(errs, fmt.Errorf("%s: entry %d: name %q does not match %s", AttachEnv, i+1, a.Name, namePattern))
		case seen[a.Name]:
			errs = append(errs, fmt.Errorf("%s: driver %s is named twice", AttachEnv, a.Name))
		case !filepath.IsAbs(a.Address):
			errs = append(errs, fmt.Errorf("%s: driver %s: address %q is not the absolute path of a unix socket",
				AttachEnv, a.Name, a.Address))
		case a.PID < 0:
			errs = append(errs, fmt.Errorf("%s: driver %s: pid %d is negative", AttachEnv, a.Name, a.PID))
		}
		seen[a.Name] = true
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

// Dial connects to a driver that runs with DebugFlag. The function it returns
// ends the connection; the driver runs on.
func Dial(a Attachment) (*Client, func() error, error) {
	info, err := os.Stat(a.Address)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("attach to driver %s: %s is gone: start the driver with %s again and use its new line",
			a.Name, a.Address, DebugFlag)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("attach to driver %s: %w", a.Name, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return nil, nil, fmt.Errorf("attach to driver %s: %s is not a unix socket", a.Name, a.Address)
	}
	options := append(DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the socket's folder is private to the user
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", a.Address)
		}))
	conn, err := grpc.NewClient("passthrough:attached", options...)
	if err != nil {
		return nil, nil, fmt.Errorf("attach to driver %s: %w", a.Name, err)
	}
	return NewClient(conn), conn.Close, nil
}
