// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"strings"
)

// pure checks the zones that promise to be a function of their input: no goroutine, no channel, and no order that comes
// from ranging over a map.
func (c *checker) pure() {
	typer := &typer{c: c, done: map[string]*typed{}, std: importer.ForCompiler(token.NewFileSet(), "source", nil)}
	for _, p := range c.tree.Packages {
		z := c.rules.zoneOf(p.Dir)
		if z == nil || !z.Pure {
			continue
		}
		for _, f := range p.Files {
			if !f.Test && !f.Generated {
				c.pureFile(f, func(e ast.Expr) types.Type { return typer.check(p).info.TypeOf(e) })
			}
		}
	}
}

// pureFile checks one file. Types are asked for only when a loop is found, because finding them out takes a while.
func (c *checker) pureFile(f *File, typeOf func(ast.Expr) types.Type) {
	imported := importNames(f.AST)
	sorted := map[*ast.CallExpr]bool{} // calls whose result is sorted at once
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			c.report(c.at(n.Pos()), "who starts a goroutine decides when things happen", "starts a goroutine")
		case *ast.ChanType:
			c.report(c.at(n.Pos()), "what a channel delivers depends on who was faster", "uses a channel")
		case *ast.RangeStmt:
			c.rangeOver(n, typeOf(n.X))
		case *ast.CallExpr:
			name := qualified(n, imported)
			if strings.HasPrefix(name, "slices.Sorted") && len(n.Args) > 0 {
				if inner, ok := n.Args[0].(*ast.CallExpr); ok {
					sorted[inner] = true
				}
			}
			if isMapOrder(name) && !sorted[n] {
				c.report(c.at(n.Pos()), mapOrder, "uses %s without slices.Sorted around it", name)
			}
		}
		return true
	})
}

const mapOrder = "the order of a map differs from run to run; sort the keys"

// rangeOver reports a loop over a map.
func (c *checker) rangeOver(loop *ast.RangeStmt, t types.Type) {
	if t == nil {
		return
	}
	if _, isMap := t.Underlying().(*types.Map); isMap {
		c.report(c.at(loop.Pos()), mapOrder, "ranges over a map")
	}
}

func isMapOrder(name string) bool {
	return name == "maps.Keys" || name == "maps.Values" || name == "maps.All"
}

// qualified is the called function as "path.Name", or "".
func qualified(call *ast.CallExpr, imported map[string]string) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok || x.Obj != nil {
		return ""
	}
	return imported[x.Name] + "." + sel.Sel.Name
}

// typer finds out the types of expressions, as far as that is possible without building anything: packages of this
// repository and of the standard library are read from source, all others are unknown to it.
type typer struct {
	c    *checker
	std  types.Importer
	done map[string]*typed
}

type typed struct {
	pkg  *types.Package
	info *types.Info
}

func (t *typer) check(p *Package) *typed {
	path := p.Path()
	if done, ok := t.done[path]; ok {
		return done
	}
	files := []*ast.File{}
	for _, f := range p.Files {
		if !f.Test {
			files = append(files, f.AST)
		}
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: t, Error: func(error) {}, FakeImportC: true}
	pkg, _ := config.Check(path, t.c.tree.Fset, files, info) // an error means an unknown type somewhere: that is expected
	t.done[path] = &typed{pkg: pkg, info: info}
	return t.done[path]
}

// Import is for go/types.
func (t *typer) Import(path string) (*types.Package, error) {
	if dir, ok := t.c.local(path); ok {
		for _, p := range t.c.tree.Packages {
			if p.Dir == dir {
				return t.check(p).pkg, nil
			}
		}
	}
	if isStd(path) {
		return t.std.Import(path)
	}
	return nil, fmt.Errorf("%s is not looked into", path)
}
