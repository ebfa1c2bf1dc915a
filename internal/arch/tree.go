// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Tree is the parsed source of the repository.
type Tree struct {
	Fset *token.FileSet
	// Modules and Packages are sorted by directory.
	Modules  []*Module
	Packages []*Package
	// Texts are all files that a person can read, sorted by name.
	Texts []Text
}

// Module is one Go module of the repository.
type Module struct {
	// Dir is relative to the root of the repository; the root module's is ".".
	Dir, Path string
	// Requires are the paths of the required modules, the indirect ones included.
	Requires []string
	// Replaces is whether go.mod has a replace directive.
	Replaces bool
}

// Package is one directory with Go files.
type Package struct {
	Dir    string
	Module *Module
	Name   string
	Files  []*File
}

// File is one Go file.
type File struct {
	Name            string
	AST             *ast.File
	Lines           int
	Test, Generated bool
	FirstLines      [2]string
}

// Text is one file that a person can read.
type Text struct {
	Name string
	Data []byte
}

// Path is the import path of p.
func (p *Package) Path() string {
	rel := strings.TrimPrefix(strings.TrimPrefix(p.Dir, p.Module.Dir), "/")
	if p.Module.Dir == "." {
		rel = p.Dir
	}
	return path.Join(p.Module.Path, rel)
}

// Load parses the repository whose root is root.
func Load(root fs.FS) (*Tree, error) {
	t := &Tree{Fset: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && isForeign(name, entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular() || isBuilt(entry.Name()):
			return nil
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return t.add(name, data)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the repository: %w", err)
	}
	slices.SortFunc(t.Modules, func(a, b *Module) int { return strings.Compare(a.Dir, b.Dir) })
	slices.SortFunc(t.Packages, func(a, b *Package) int { return strings.Compare(a.Dir, b.Dir) })
	for _, p := range t.Packages {
		if p.Module = t.moduleOf(p.Dir); p.Module == nil {
			return nil, fmt.Errorf("package %s lies in no module: a go.mod is missing", p.Dir)
		}
	}
	return t, nil
}

// isForeign is whether a directory holds things that are built, downloaded or recorded, not written.
func isForeign(dir, base string) bool {
	if dir == "." {
		return false
	}
	return base == "bin" || strings.HasPrefix(base, ".") && base != ".ci" && base != ".github"
}

// isBuilt is whether a file is a build product, by the names in .gitignore, or git's own: .git is a file in a linked worktree.
func isBuilt(base string) bool {
	return base == ".git" || strings.HasSuffix(base, ".test") || strings.HasSuffix(base, ".out")
}

// add takes in one file.
func (t *Tree) add(name string, data []byte) error {
	if bytes.IndexByte(data, 0) >= 0 {
		return nil // not text
	}
	t.Texts = append(t.Texts, Text{Name: name, Data: data})
	switch {
	case path.Base(name) == "go.mod":
		t.Modules = append(t.Modules, parseModule(path.Dir(name), string(data)))
	case strings.HasSuffix(name, ".go") && !strings.Contains("/"+name, "/testdata/"):
		return t.addGo(name, data)
	}
	return nil
}

func (t *Tree) addGo(name string, data []byte) error {
	parsed, err := parser.ParseFile(t.Fset, name, data, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parsing: %w", err)
	}
	f := &File{
		Name:      name,
		AST:       parsed,
		Lines:     bytes.Count(data, []byte("\n")),
		Test:      strings.HasSuffix(name, "_test.go"),
		Generated: ast.IsGenerated(parsed),
	}
	for i, line := range strings.SplitN(string(data), "\n", 3)[:min(2, 1+f.Lines)] {
		f.FirstLines[i] = line
	}
	p := t.packageIn(path.Dir(name))
	p.Files = append(p.Files, f)
	if own := strings.TrimSuffix(parsed.Name.Name, "_test"); p.Name == "" || !f.Test {
		p.Name = own
	}
	return nil
}

func (t *Tree) packageIn(dir string) *Package {
	if p := t.Package(dir); p != nil {
		return p
	}
	p := &Package{Dir: dir}
	t.Packages = append(t.Packages, p)
	return p
}

// moduleOf is the innermost module around dir.
func (t *Tree) moduleOf(dir string) *Module {
	var found *Module
	for _, m := range t.Modules { // sorted, so an inner module comes after the one around it
		if m.Dir == "." || dir == m.Dir || strings.HasPrefix(dir, m.Dir+"/") {
			found = m
		}
	}
	return found
}

// parseModule reads what the rules need from a go.mod. It takes the file as `go mod tidy` writes it; that it is tidy is
// checked elsewhere (make verify).
func parseModule(dir, text string) *Module {
	m := &Module{Dir: dir}
	block := ""
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == ")":
			block = ""
		case len(fields) == 2 && fields[1] == "(":
			block = fields[0]
		case block != "":
			m.directive(block, fields[0])
		case len(fields) > 1:
			m.directive(fields[0], fields[1])
		}
	}
	return m
}

func (m *Module) directive(verb, argument string) {
	switch verb {
	case "module":
		m.Path = argument
	case "require":
		m.Requires = append(m.Requires, argument)
	case "replace":
		m.Replaces = true
	}
}

// Package is the package in dir, or nil.
func (t *Tree) Package(dir string) *Package {
	i := slices.IndexFunc(t.Packages, func(p *Package) bool { return p.Dir == dir })
	if i < 0 {
		return nil
	}
	return t.Packages[i]
}
