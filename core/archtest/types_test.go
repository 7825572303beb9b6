package archtest_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// source is a package of this project with its types.
type source struct {
	pkg   *types.Package
	info  *types.Info
	files []*ast.File
}

// sources type-checks the packages with limits, without their tests, for the
// platform of the test.
var sources = sync.OnceValues(func() (map[string]source, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles",
		"./...", module+"sdk/...")
	cmd.Dir = "../.."
	printed, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
	}
	exports, ours := map[string]string{}, []listed{}
	for d := json.NewDecoder(printed); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[l.ImportPath] = l.Export
		if dir, ok := strings.CutPrefix(l.ImportPath, module); ok && !below(dir, "e2e") && !below(dir, "examples") {
			ours = append(ours, l)
		}
	}
	if err := cmd.Wait(); err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	out := map[string]source{}
	for _, l := range ours {
		s := source{info: &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}}
		for _, name := range l.GoFiles {
			parsed, err := parser.ParseFile(fset, filepath.Join(l.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			s.files = append(s.files, parsed)
		}
		config := types.Config{Importer: imports}
		if s.pkg, err = config.Check(l.ImportPath, fset, s.files, s.info); err != nil {
			return nil, err
		}
		out[strings.TrimPrefix(l.ImportPath, module)] = s
	}
	return out, nil
})

func TestTypesHaveFewMethods(t *testing.T) {
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	generated := map[*types.Package]bool{}
	for _, s := range all {
		generated[s.pkg] = slices.ContainsFunc(s.files, ast.IsGenerated)
	}
	counts := map[string]int{}
	for dir, s := range all {
		if strings.HasSuffix(dir, "test") {
			continue // helps tests, and may join what they use
		}
		for _, object := range s.info.Defs {
			name, ok := object.(*types.TypeName)
			if !ok || name.IsAlias() || generated[s.pkg] {
				continue
			}
			set := types.NewMethodSet(name.Type())
			if !types.IsInterface(name.Type()) {
				set = types.NewMethodSet(types.NewPointer(name.Type()))
			}
			for method := range set.Methods() {
				if p := method.Obj().Pkg(); p != nil && strings.HasPrefix(p.Path(), module) && !strings.HasSuffix(p.Path(), "/driverpb") {
					counts[dir+"."+name.Name()]++
				}
			}
		}
	}
	for name, n := range counts {
		if n > maxMethods {
			t.Errorf("%s has %d methods, promoted ones included, more than %d: cut it by responsibility", name, n, maxMethods)
		}
	}
}

// maxKnot is how many types may all reach each other.
const maxKnot = 3

// A type reaches another if its methods mention a method of it, directly or by
// way of functions and other types. Of types that all reach each other, none
// can be understood alone.
func TestTypesOfTheDirectorFormNoKnot(t *testing.T) {
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	for dir, s := range all {
		if !below(dir, "core/director") {
			continue
		}
		reached := map[types.Object]map[types.Object]bool{}
		edges := dependencies(s)
		for from := range edges {
			reached[from] = map[types.Object]bool{}
			reach(from, edges, reached[from])
		}
		for from, others := range reached {
			knot := []string{from.Name()}
			for to := range others {
				if _, isType := to.(*types.TypeName); isType && to != from && reached[to][from] {
					knot = append(knot, to.Name())
				}
			}
			if _, isType := from.(*types.TypeName); isType && len(knot) > maxKnot {
				slices.Sort(knot)
				t.Errorf("%s: these types all reach each other: %v", dir, knot)
			}
		}
	}
}

// dependencies maps each type and function of the package to those whose
// methods and functions its bodies mention.
func dependencies(s source) map[types.Object][]types.Object {
	edges := map[types.Object][]types.Object{}
	for _, f := range s.files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			from := node(s.info.Defs[fn.Name].(*types.Func))
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if used, ok := s.info.Uses[id].(*types.Func); ok && used.Pkg() == s.pkg {
						edges[from] = append(edges[from], node(used))
					}
				}
				return true
			})
		}
	}
	return edges
}

// node is the type of a method, and otherwise the function itself.
func node(f *types.Func) types.Object {
	recv := f.Signature().Recv()
	if recv == nil {
		return f.Origin()
	}
	of := recv.Type()
	if p, ok := of.(*types.Pointer); ok {
		of = p.Elem()
	}
	if named, ok := of.(*types.Named); ok {
		return named.Obj()
	}
	return f.Origin() // of an interface without a name
}

func reach(from types.Object, edges map[types.Object][]types.Object, reached map[types.Object]bool) {
	for _, to := range edges[from] {
		if !reached[to] {
			reached[to] = true
			reach(to, edges, reached)
		}
	}
}
