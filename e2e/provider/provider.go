package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/zitadel/oidc/v3/pkg/op"
)

// provider serves the paths below the issuer.
type provider struct {
	issuer  string
	storage *storage
	op      *op.Provider
	down    atomic.Bool
}

func newProvider(issuer string) (http.Handler, error) {
	p := &provider{issuer: issuer, storage: newStorage(issuer)}
	if err := p.storage.rotate(true); err != nil {
		return nil, err
	}
	config := &op.Config{CodeMethodS256: true, AuthMethodPost: true, GrantTypeRefreshToken: true, DefaultLogoutRedirectURI: issuer + "/login"}
	_, _ = rand.Read(config.CryptoKey[:])
	var err error
	if p.op, err = op.NewProvider(config, p.storage, op.StaticIssuer(issuer), op.WithAllowInsecure()); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", p.form)
	mux.Handle("POST /login", op.NewIssuerInterceptor(p.op.IssuerFromRequest).Handler(http.HandlerFunc(p.logIn)))
	mux.HandleFunc("POST /test/token", p.sign)
	mux.HandleFunc("POST /test/rotate", func(w http.ResponseWriter, r *http.Request) {
		reply(w, p.storage.rotate(r.FormValue("keep") != "false"), "")
	})
	mux.HandleFunc("POST /test/clock", func(w http.ResponseWriter, r *http.Request) {
		offset, err := time.ParseDuration(r.FormValue("offset"))
		p.storage.keys.mu.Lock()
		p.storage.offset = offset
		p.storage.keys.mu.Unlock()
		reply(w, err, "")
	})
	mux.HandleFunc("POST /test/down", func(w http.ResponseWriter, r *http.Request) {
		p.down.Store(r.FormValue("down") == "true")
		reply(w, nil, "")
	})
	mux.HandleFunc("POST /test/leave", func(w http.ResponseWriter, r *http.Request) {
		p.storage.left.Store(r.FormValue("person"), true)
		reply(w, nil, "")
	})
	mux.HandleFunc("POST /test/count", func(w http.ResponseWriter, _ *http.Request) {
		p.storage.keys.mu.Lock()
		defer p.storage.keys.mu.Unlock()
		reply(w, nil, strconv.Itoa(p.storage.fetched))
	})
	mux.HandleFunc("/", p.serve)
	return mux, nil
}

// serve serves what providers offer.
func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	if p.down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	if resource := r.FormValue("resource"); resource != "" {
		r = r.WithContext(context.WithValue(r.Context(), resourceKey{}, resource))
	}
	p.op.ServeHTTP(w, r)
}

var formPage = template.Must(template.New("").Parse(`<!doctype html><title>Log in</title><h1>Log in</h1>{{with .Error}}<p>{{.}}</p>{{end}}
<form method="post" action="login"><input type="hidden" name="id" value="{{.ID}}">
<label>Name <input name="username" autofocus></label> <label>Password <input name="password" type="password"></label> <button>Log in</button></form>`))

func (p *provider) form(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = formPage.Execute(w, map[string]any{"ID": r.FormValue("id")})
}

func (p *provider) logIn(w http.ResponseWriter, r *http.Request) {
	id := r.FormValue("id")
	if err := p.storage.logIn(id, r.FormValue("username"), r.FormValue("password")); err != nil {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusUnauthorized)
		_ = formPage.Execute(w, map[string]any{"ID": id, "Error": err.Error()})
		return
	}
	http.Redirect(w, r, op.AuthCallbackURL(p.op)(r.Context(), id), http.StatusFound)
}

// sign signs what a test wants.
func (p *provider) sign(w http.ResponseWriter, r *http.Request) {
	given := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&given); err != nil && err != io.EOF {
		reply(w, err, "")
		return
	}
	subject, _ := given["sub"].(string)
	if subject == "" {
		subject = "ada"
	}
	now := p.storage.now()
	all := p.storage.claims(subject, "agent")
	all["iss"], all["sub"], all["jti"], all["scope"] = p.issuer, subject, rand.Text(), "openid"
	all["iat"], all["nbf"], all["exp"] = now.Unix(), now.Unix(), now.Add(time.Hour).Unix()
	for name, value := range given {
		all[name] = value
		if value == nil {
			delete(all, name)
		}
	}
	query := r.URL.Query()
	algorithm := query.Get("alg")
	if algorithm == "" {
		algorithm = "RS256"
	}
	token, err := p.storage.sign(all, algorithm, query.Get("key") == "foreign")
	reply(w, err, token)
}

func reply(w http.ResponseWriter, err error, text string) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, text)
}
