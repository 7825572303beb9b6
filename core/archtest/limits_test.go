package archtest_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Limits of what a reader can keep in mind. Files and functions have no list of
// exceptions.
const (
	maxMethods  = 25 // of a type, those that it gets by embedding included
	maxFile     = 400
	maxFunction = 60
)

func TestFilesAndFunctionsAreSmall(t *testing.T) {
	check := func(what string, n, limit int) {
		if n > limit {
			t.Errorf("%s: %d, more than %d: cut it by responsibility", what, n, limit)
		}
	}
	for _, f := range files(t) {
		if f.test || strings.Contains(f.path, "/testdata/") {
			continue
		}
		path := filepath.Join("../..", f.path)
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, path, source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(parsed) {
			continue
		}
		check("lines of "+f.path, bytes.Count(source, []byte("\n")), maxFile)
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := f.dir + "." + fn.Name.Name
			if fn.Recv != nil {
				name = f.dir + "." + receiverOf(fn) + "." + fn.Name.Name
			}
			check("lines of "+name, fset.Position(fn.End()).Line-fset.Position(fn.Pos()).Line+1, maxFunction)
		}
	}
}

func receiverOf(fn *ast.FuncDecl) string {
	e := fn.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
