// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"path"
	"reflect"
	"strconv"
	"strings"
)

// fieldRow is one field of an API type.
type fieldRow struct {
	// Path is the path of the field in an object, Kind the kind of its value, and Doc its comment.
	Path, Kind, Doc string
	// Zero is the value of an absent field; empty if absence has a meaning that no value has.
	Zero string
}

// fieldReader lists the fields of the API types in api/kruise.
type fieldReader struct {
	tree *sources
	rows []fieldRow
}

// fieldsOf lists the fields of a type, and those of the types of its fields, below a path.
func fieldsOf(tree *sources, dir, typeName, at string) ([]fieldRow, error) {
	r := &fieldReader{tree: tree}
	err := r.add(dir, typeName, at)
	return r.rows, err
}

func (r *fieldReader) add(dir, typeName, at string) error {
	fields := structOf(r.tree, dir, typeName)
	if fields == nil {
		return fmt.Errorf("there is no struct %s in %s", typeName, dir)
	}
	for _, f := range fields.Fields.List {
		name := jsonName(f)
		if name == "" {
			continue
		}
		row := fieldRow{Path: at + "." + name, Doc: describe(f)}
		if row.Doc == "" {
			return fmt.Errorf("field %s of %s.%s has no comment: kubectl explain would show nothing", name, dir, typeName)
		}
		element, pointer := f.Type, false
		if star, ok := f.Type.(*ast.StarExpr); ok {
			element, pointer = star.X, true
		}
		below, inner := r.structType(dir, element)
		row.Kind, row.Zero = kindOf(element)
		if pointer {
			row.Zero = ""
		}
		if inner != "" {
			row.Kind = "object"
		}
		r.rows = append(r.rows, row)
		// What is rejected needs no explanation of its content.
		if inner != "" && !strings.Contains(row.Doc, "is rejected") {
			if err := r.add(below, inner, row.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// structType is the directory and name of a struct of ours that an expression stands for; the name is empty for anything else.
func (r *fieldReader) structType(dir string, expr ast.Expr) (below, name string) {
	switch e := expr.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && x.Name == "pub" {
			dir, name = path.Join(path.Dir(dir), x.Name), e.Sel.Name
		}
	}
	if name == "" || structOf(r.tree, dir, name) == nil {
		return "", ""
	}
	return dir, name
}

// kindOf describes the value of a field that is not one of our structs, and returns its zero value.
func kindOf(expr ast.Expr) (kind, zero string) {
	switch e := expr.(type) {
	case *ast.Ident:
		switch e.Name {
		case "int32", "int64":
			return "number", "0"
		case "bool":
			return "boolean", "false"
		default:
			return "string", ""
		}
	case *ast.MapType:
		return "map of strings", ""
	case *ast.ArrayType:
		kind, _ := kindOf(e.Elt)
		return "list of " + kind + "s", ""
	case *ast.SelectorExpr:
		words := map[string]string{
			"IntOrString": "number or percentage", "LabelSelector": "label selector", "RawExtension": "pod template",
			"DaemonSetCondition": "condition",
		}
		if word, ok := words[e.Sel.Name]; ok {
			return word, ""
		}
		return e.Sel.Name, ""
	default:
		return "object", ""
	}
}

func structOf(tree *sources, dir, name string) *ast.StructType {
	for _, f := range tree.packages[dir] {
		for _, decl := range f.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && t.Name.Name == name {
					s, _ := t.Type.(*ast.StructType)
					return s
				}
			}
		}
	}
	return nil
}

// jsonName returns the name of a field in the API; empty for a field that has none.
func jsonName(f *ast.Field) string {
	if f.Tag == nil || len(f.Names) == 0 {
		return ""
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return strings.TrimPrefix(name, "-")
}

// describe is the comment of a field without the markers for generators, and without the field's Go name, which means nothing to a
// user: "Selector finds pods" becomes "Finds pods", and "Names are lists" becomes "Lists".
func describe(f *ast.Field) string {
	var kept []string
	for line := range strings.Lines(f.Doc.Text()) {
		if !strings.HasPrefix(line, "+") {
			kept = append(kept, line)
		}
	}
	doc := strings.Join(strings.Fields(strings.Join(kept, "")), " ")
	if rest, ok := strings.CutPrefix(doc, f.Names[0].Name+" are "); ok {
		return capital(rest)
	}
	return sentence(declared{name: f.Names[0].Name, doc: doc})
}
