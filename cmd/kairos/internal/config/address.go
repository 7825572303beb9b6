package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// The spelling of an address of a PostgreSQL database.
const postgresSpelling = "postgres://USER:PASSWORD@HOST:PORT/DATABASE"

// scheme is what an address begins with, such as postgresql+asyncpg: or C:.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// Understand puts the form of the database that KAIROS works with in the place of the one
// that was written. An address of another form is an error with the right spelling:
// taken as a path it would be a new, empty file. The error has no password.
func (d *Database) Understand() error {
	text, err := expand(strings.TrimSpace(string(*d)), bracedVariable)
	if err != nil {
		return err
	}
	switch {
	case text == "":
		*d = ""
		return nil
	case strings.HasSuffix(text, ":memory:"): // as sqlite:///:memory:, too
		return errors.New("a database in memory would keep nothing: write the path of a file, such as ./kairos.db")
	case quoted(text):
		return errors.New("it is in quotes: write it without them")
	case keyword.MatchString(text):
		return fmt.Errorf("it is a connection string of libpq: write %s", fromKeywords(text))
	}
	at := scheme.FindString(text)
	switch {
	case at != "":
	case almostURL.MatchString(text):
		return fmt.Errorf("it looks like the address of a server: write %s, or ./ before the path of a SQLite file", postgresSpelling)
	case almostQuery.MatchString(text):
		return fmt.Errorf("a SQLite database is named by its path alone: write %s", almostQuery.ReplaceAllString(text, ""))
	default:
		path, err := understoodPath(text)
		*d = Database(path)
		return err
	}
	name, rest := strings.ToLower(strings.TrimSuffix(at, ":")), text[len(at):]
	if name == "jdbc" {
		return fmt.Errorf("it is an address of JDBC: write %s", spelling(rest))
	}
	if (name == "postgres" || name == "postgresql") && strings.HasPrefix(rest, "//") {
		*d = Database(name + ":" + rest)
		return nil
	}
	return otherScheme(name, text)
}

// An address without a scheme: postgres//host, me@host/kairos, //host/kairos;
// or a path that ends like an address: kairos.db?mode=ro.
var (
	almostURL   = regexp.MustCompile(`^(?i:(?:postgres|postgresql|sqlite3?)?//|[^/]+@[^/]+/)`)
	almostQuery = regexp.MustCompile(`\?[A-Za-z_]+=[^/]*$`)
)

// otherScheme is the error for an address that begins with a scheme which is not that of
// PostgreSQL.
func otherScheme(name, text string) error {
	rest := text[len(name)+1:]
	base, _, driver := strings.Cut(name, "+")
	switch {
	case base == "postgres" || base == "postgresql" || base == "pgsql" || base == "psql" || base == "pg":
		what := "PostgreSQL is named by postgres:// alone"
		if driver {
			what = "the name of a driver does not belong into it"
		}
		return fmt.Errorf("%s: write %s", what, spelling(text))
	case base == "sqlite" || base == "sqlite3" || base == "file":
		path, _, _ := strings.Cut(rest, "?")
		path, slashes := strings.CutPrefix(path, "//")
		if slashes && base != "file" { // of SQLAlchemy: one more slash before the path
			path = strings.TrimPrefix(path, "/")
		}
		return fmt.Errorf("a SQLite database is named by its path alone: write %s", cmp.Or(path, "the path of a file"))
	case len(name) == 1:
		return fmt.Errorf("%q looks like a path of Windows: write the path of a file of this machine", text)
	}
	return fmt.Errorf("%s: is not a database that KAIROS works with: write the path of a SQLite file, or %s", name, postgresSpelling)
}

// spelling is an address of another form as KAIROS takes it, without its password.
func spelling(text string) string {
	_, rest, _ := strings.Cut(text, "://")
	u, err := url.Parse("postgres://" + rest)
	if rest == "" || err != nil || u.Host == "" {
		return postgresSpelling
	}
	user := u.User.Username()
	if q := u.Query().Get("user"); q != "" { // as JDBC has it
		user = q
	}
	return addressOf(user, u.Host, strings.TrimPrefix(u.Path, "/"))
}

func addressOf(user, host, name string) string {
	return fmt.Sprintf("postgres://%s:PASSWORD@%s/%s", cmp.Or(user, "USER"), cmp.Or(host, "HOST"), cmp.Or(name, "DATABASE"))
}

// keyword is how a connection string of libpq begins.
var keyword = regexp.MustCompile(`^(host|hostaddr|port|dbname|user|password|sslmode|service|passfile)\s*=`)

// fromKeywords is a connection string of libpq as an address, without its password.
func fromKeywords(text string) string {
	got := map[string]string{}
	for _, part := range strings.Fields(text) {
		name, value, _ := strings.Cut(part, "=")
		got[name] = strings.Trim(value, "'")
	}
	host := cmp.Or(got["host"], got["hostaddr"])
	if strings.HasPrefix(host, "/") {
		return fmt.Sprintf("postgres://%s@/%s?host=%s", cmp.Or(got["user"], "USER"), cmp.Or(got["dbname"], "DATABASE"), host)
	}
	if got["port"] != "" {
		host += ":" + got["port"]
	}
	return addressOf(got["user"], host, got["dbname"])
}

// How a variable of the environment is written: in a path with or without braces. An
// address may have a dollar sign in its password.
var (
	anyVariable    = regexp.MustCompile(`\$(?:\{[^}]*\}?|[A-Za-z_][A-Za-z0-9_]*)`)
	bracedVariable = regexp.MustCompile(`\$\{[^}]*\}?`)
	variable       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// expand puts the values of the variables in their places. One that is not set is an
// error: left as it is it would be the name of a folder.
func expand(text string, variables *regexp.Regexp) (string, error) {
	var err error
	out := variables.ReplaceAllStringFunc(text, func(found string) string {
		name := strings.Trim(found, "${}")
		if !variable.MatchString(name) || strings.HasPrefix(found, "${") != strings.HasSuffix(found, "}") {
			err = errors.Join(err, fmt.Errorf("%s is not a variable: write ${NAME}, or the value itself", found))
			return found
		}
		value := strings.TrimSpace(os.Getenv(name))
		if value == "" {
			err = errors.Join(err, fmt.Errorf("%s is in it, but the environment variable %s is not set: set it, or write the value itself", found, name))
		}
		return value
	})
	return out, err
}

// understoodPath is a path as the machine takes it, with ~ and variables replaced as a shell
// replaces them.
func understoodPath(text string) (string, error) {
	path, err := expand(strings.TrimSpace(text), anyVariable)
	switch {
	case err != nil:
		return text, err
	case quoted(path):
		return text, errors.New("it is in quotes: write it without them")
	case strings.ContainsFunc(path, func(r rune) bool { return r < ' ' }):
		return text, errors.New("it has a line end or another control character in it: write the path of one file")
	case path == "~" || strings.HasPrefix(path, "~/"):
		home, err := os.UserHomeDir()
		if err != nil {
			return text, fmt.Errorf("~ is your home folder, which is not known: %w; write the whole path", err)
		}
		path = home + path[1:]
	case strings.HasPrefix(path, "~"):
		return text, fmt.Errorf("only ~/ is understood, for your own home folder: write the whole path instead of %q", path)
	}
	if path != "" && strings.HasSuffix(text, "/") && !strings.HasSuffix(path, "/") {
		path += "/"
	}
	return path, nil
}

// quoted reports whether text is in quotes, as where a file for the environment has them
// and its reader takes them literally.
func quoted(text string) bool {
	return len(text) > 1 && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0]
}

// absolute is a path relative to a folder.
func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
