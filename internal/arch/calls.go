// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
)

// calls looks for uses of names that the zone bans, such as time.Now. A use is enough: a function that is handed on is
// called by somebody else.
func (c *checker) calls() {
	c.eachSource(func(p *Package, f *File) {
		z := c.rules.zoneOf(p.Dir)
		if z == nil || len(z.Bans) == 0 {
			return
		}
		eachUse(f.AST, func(sel *ast.SelectorExpr, name string) {
			for _, ban := range z.Bans {
				if ban.What == name {
					c.report(c.at(sel.Pos()), ban.Reason, "zone %q must not use %s", z.Name, name)
				}
			}
		})
	})
}

// contexts forbids a context out of nowhere: only a main and a test may start one.
func (c *checker) contexts() {
	c.eachSource(func(p *Package, f *File) {
		if z := c.rules.zoneOf(p.Dir); p.Name == "main" || z != nil && z.Tests {
			return
		}
		eachUse(f.AST, func(sel *ast.SelectorExpr, name string) {
			if name == "context.TODO" || name == "context.Background" {
				c.report(c.at(sel.Pos()), "a context made here cannot be cancelled by the caller", "%s outside main and tests", name)
			}
		})
	})
}

// eachUse calls visit for each selector on an imported package, with the package's path and the name: "time.Now".
func eachUse(f *ast.File, visit func(sel *ast.SelectorExpr, name string)) {
	imported := importNames(f)
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil {
			if pkg, ok := imported[x.Name]; ok {
				visit(sel, pkg+"."+sel.Sel.Name)
			}
		}
		return true
	})
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// importNames maps the names by which a file knows its imports to their paths.
func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.Imports {
		full := importPath(spec)
		name := path.Base(full)
		if majorVersion.MatchString(name) && strings.Contains(full, "/") {
			name = path.Base(path.Dir(full))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = full
	}
	return names
}

// inits allows init only for registration.
func (c *checker) inits() {
	c.eachSource(func(_ *Package, f *File) {
		for _, decl := range f.AST.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && fn.Recv == nil && fn.Name.Name == "init" && !onlyRegisters(fn.Body) {
				c.report(c.at(fn.Pos()), "what is wired by importing a package cannot be seen in main", "init does more than register")
			}
		}
	})
}

var registering = regexp.MustCompile(`^(Must)?(Register|AddToScheme|Install)|^Must$`)

func onlyRegisters(body *ast.BlockStmt) bool {
	for _, stmt := range body.List {
		expr, ok := stmt.(*ast.ExprStmt)
		if !ok {
			return false
		}
		call, ok := expr.X.(*ast.CallExpr)
		if !ok || !registering.MatchString(callee(call)) {
			return false
		}
	}
	return true
}

// callee is the last part of the name of the function that is called.
func callee(call *ast.CallExpr) string {
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		return fn.Name
	case *ast.SelectorExpr:
		return fn.Sel.Name
	}
	return ""
}

// globals finds package variables that are changed after they were declared, or that exist to be changed (locks).
func (c *checker) globals() {
	for _, p := range c.tree.Packages {
		vars := packageVars(p)
		for _, f := range p.Files {
			if f.Test || f.Generated {
				continue
			}
			c.changedGlobals(f, vars)
		}
	}
}

func (c *checker) changedGlobals(f *File, vars map[string]*ast.ValueSpec) {
	const why = "two tests, or two planes, in one process would share it"
	change := func(target ast.Expr) {
		id := root(target)
		if id == nil {
			return
		}
		if spec, ok := vars[id.Name]; ok && (id.Obj == nil || id.Obj.Decl == spec) {
			c.report(c.at(target.Pos()), why, "changes the package variable %s", id.Name)
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, target := range n.Lhs {
					change(target)
				}
			}
		case *ast.IncDecStmt:
			change(n.X)
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && (id.Name == "delete" || id.Name == "clear") {
				change(n.Args[0])
			}
		}
		return true
	})
	for _, decl := range f.AST.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, spec := range gen.Specs {
			if spec := spec.(*ast.ValueSpec); isLock(spec.Type) {
				c.report(c.at(spec.Pos()), why, "the package variable %s is there to be changed", spec.Names[0].Name)
			}
		}
	}
}

// packageVars are the variables that a package declares at its top level.
func packageVars(p *Package) map[string]*ast.ValueSpec {
	vars := map[string]*ast.ValueSpec{}
	for _, f := range p.Files {
		for _, decl := range f.AST.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR || f.Test {
				continue
			}
			for _, spec := range gen.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					vars[name.Name] = spec.(*ast.ValueSpec)
				}
			}
		}
	}
	return vars
}

// root is the variable at the bottom of an expression that is assigned to: x of x.f[i].g. It is nil for _.
func root(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		if e.Name == "_" {
			return nil
		}
		return e
	case *ast.SelectorExpr:
		return root(e.X)
	case *ast.IndexExpr:
		return root(e.X)
	case *ast.StarExpr:
		return root(e.X)
	case *ast.ParenExpr:
		return root(e.X)
	}
	return nil
}

// isLock is whether a type comes from package sync or sync/atomic.
func isLock(t ast.Expr) bool {
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	sel, ok := t.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && (pkg.Name == "sync" || pkg.Name == "atomic")
}
