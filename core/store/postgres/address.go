package postgres

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// defaultConnections is as many statements as a server has under way at once, unless
// the address has pool_max_conns: three servers fit into PostgreSQL's 100 connections.
const defaultConnections = 16

// pooledMode leaves nothing in a session: a pooler gives every transaction another one.
// Without a pooler prepared statements are used, which the server plans only once.
const pooledMode = pgx.QueryExecModeCacheDescribe

// Is reports whether the address is one of this store, and not the path of a file.
func Is(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// Redacted is the address without password and options, for messages.
func Redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" {
		return "postgres://…" // where the password ends is unknown
	}
	shown := url.URL{Scheme: "postgres", Host: u.Host, Path: u.Path}
	if u.User.Username() != "" {
		shown.User = url.User(u.User.Username())
	}
	if socket := u.Query().Get("host"); socket != "" {
		return shown.String() + "?host=" + socket
	}
	return shown.String()
}

// parseAddress reads an address. No error contains its password.
func parseAddress(address string) (*pgxpool.Config, error) {
	u, err := url.Parse(address)
	if err != nil || !Is(address) {
		return nil, errors.New("the address of the database cannot be read: it must be postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters of the password percent-encoded")
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("the address of database %s cannot be read: %s", Redacted(address), withoutSecrets(err.Error(), address, u))
	}
	if !u.Query().Has("pool_max_conns") {
		config.MaxConns = defaultConnections
	}
	if !u.Query().Has("default_query_exec_mode") {
		config.ConnConfig.DefaultQueryExecMode = pooledMode
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	config.ConnConfig.DialFunc = dial
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "kairos"
	}
	return config, nil
}

// withoutSecrets removes address and password from a message.
func withoutSecrets(message, address string, u *url.URL) string {
	message = strings.ReplaceAll(message, address, Redacted(address))
	password, _ := u.User.Password()
	for _, secret := range []string{password, url.QueryEscape(password), url.PathEscape(password), u.Query().Get("password"), u.Query().Get("sslpassword")} {
		if secret != "" {
			message = strings.ReplaceAll(message, secret, "xxxxx")
		}
	}
	return message
}

// place is where the server is, for messages.
func place(config *pgconn.Config) string {
	if strings.HasPrefix(config.Host, "/") {
		return fmt.Sprintf("the socket in %s", config.Host)
	}
	return net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
}
