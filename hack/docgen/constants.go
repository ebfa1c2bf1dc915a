// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// group is one const declaration, or a part of it under a separate heading.
//
// A comment above a constant that also has a comment at the end of its line is the heading of a part:
//
//	// Waiting.
//	WaitBudget // the pod is old; the budget is used up
type group struct {
	heading   string
	constants []declared
}

// declared is one exported constant.
type declared struct {
	name, doc string
	// value is the text of a string; number is the value of a number.
	value  string
	number int
	// kind is the name of the constant's type, "string" when it has none.
	kind string
}

// constants reads the exported constants of the package in dir, in the order of their declaration.
func constants(tree *sources, dir string) ([]group, error) {
	files := tree.packages[dir]
	if len(files) == 0 {
		return nil, fmt.Errorf("package %s does not exist", dir)
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
	// Imports are not followed, so there are errors; a constant that needs no import has its value all the same.
	config := types.Config{Error: func(error) {}, Importer: noImporter{}}
	_, _ = config.Check(dir, tree.fset, files, info)

	groups := []group{}
	for _, f := range files {
		for _, decl := range f.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.CONST {
				groups = append(groups, split(gen, info)...)
			}
		}
	}
	return groups, nil
}

// noImporter knows no package.
type noImporter struct{}

func (noImporter) Import(path string) (*types.Package, error) {
	return nil, fmt.Errorf("%s is not looked into", path)
}

// split cuts one const declaration into its groups. The first has the comment of the declaration as its heading.
func split(gen *ast.GenDecl, info *types.Info) []group {
	groups := []group{{heading: text(gen.Doc)}}
	for _, spec := range gen.Specs {
		spec := spec.(*ast.ValueSpec)
		doc := text(spec.Doc)
		if spec.Doc != nil && spec.Comment != nil {
			groups = append(groups, group{heading: doc})
			doc = ""
		}
		if doc == "" {
			doc = text(spec.Comment)
		}
		if doc == "" && !gen.Lparen.IsValid() {
			doc = text(gen.Doc)
		}
		last := &groups[len(groups)-1]
		for i, name := range spec.Names {
			if !name.IsExported() {
				continue
			}
			d := declare(name.Name, doc, info.Defs[name])
			if d.value == "" && i < len(spec.Values) {
				d.value = literal(spec.Values[i])
			}
			last.constants = append(last.constants, d)
		}
	}
	return groups
}

// literal returns the text of an expression that is a string literal: a constant of a type from another module has no value otherwise.
func literal(expr ast.Expr) string {
	if lit, ok := expr.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if text, err := strconv.Unquote(lit.Value); err == nil {
			return text
		}
	}
	return ""
}

func declare(name, doc string, object types.Object) declared {
	d := declared{name: name, doc: doc, kind: "string"}
	c, ok := object.(*types.Const)
	if !ok {
		return d
	}
	if named, ok := c.Type().(*types.Named); ok {
		d.kind = named.Obj().Name()
	}
	switch c.Val().Kind() {
	case constant.String:
		d.value = constant.StringVal(c.Val())
	case constant.Int:
		n, _ := constant.Int64Val(c.Val())
		d.number = int(n)
	}
	return d
}

// text is a comment as one paragraph per paragraph.
func text(c *ast.CommentGroup) string {
	paragraphs := strings.Split(strings.TrimSpace(c.Text()), "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.Join(strings.Fields(p), " ")
	}
	return strings.Join(paragraphs, "\n\n")
}
