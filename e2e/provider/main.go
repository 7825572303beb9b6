// Command provider is an OpenID Connect provider for tests: a party of its own, built on the
// provider of zitadel/oidc, that logs people in and signs tokens. It is not for production:
// everybody's password is "password", and whoever reaches it has every token.
//
//	go -C e2e/provider run . -listen 127.0.0.1:0
//
// prints one line of JSON, {"issuer": "http://127.0.0.1:PORT/realms/acme"}, once it serves, and
// ends with its standard input or by a signal.
//
// People (subject: groups, realm roles):
//
//	ada: eng, sre · bob: eng, release · carol: release · dan: none, but the role reader
//
// Clients:
//
//	kairos, secret kairos-secret   logs in with a browser; redirects to any port of loopback
//	agent, public                  code with PKCE for programs of people, also of loopback
//	robot, secret robot-secret     client credentials; the subject is robot
//
// Every login gives a refresh token. The audience of an access token is what the parameter "resource" names (RFC 8707), else the
// client. The login form posts "id", "username" and "password" to <issuer>/login.
//
// What a provider does not offer, and tests need, is below <issuer>/test, each a POST:
//
//	/test/token?alg=RS256|HS256|none   signs the claims of the body, over those of ada for an hour,
//	                                   and replies with the token; a claim that is null is left out.
//	                                   HS256 signs with the public key as the secret.
//	                                   key=foreign signs with a key that is not published.
//	/test/rotate                       signs with a new key from now on; keep=false also withdraws the old one
//	/test/clock?offset=5m              sets the clock of what is issued from now on
//	/test/down?down=true               answers everything else with 503, until false
//	/test/leave?person=bob             takes all groups of a person away
//	/test/count                        replies how often the keys were fetched
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "provider:", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:0", "host and port")
	realm := flag.String("realm", "acme", "the realm, the last segment of the issuer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() { // whoever started it has ended
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	path := "/realms/" + *realm
	issuer := "http://" + l.Addr().String() + path
	h, err := newProvider(issuer)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(path+"/", http.StripPrefix(path, h))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"issuer": issuer}); err != nil {
		return err
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
