// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// sources are the parsed files of the root module that are not tests, by the directory of their package.
type sources struct {
	fset     *token.FileSet
	packages map[string][]*ast.File
}

// load parses the repository whose root is root.
func load(root fs.FS) (*sources, error) {
	s := &sources{fset: token.NewFileSet(), packages: map[string][]*ast.File{}}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(s.fset, name, data, parser.ParseComments)
		if err != nil {
			return err
		}
		s.packages[path.Dir(name)] = append(s.packages[path.Dir(name)], file)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the repository: %w", err)
	}
	return s, nil
}

// skipped reports whether a directory holds other modules, data of tests, or files that are built or downloaded.
func skipped(dir string) bool {
	return dir != "." && strings.HasPrefix(dir, ".") || slices.Contains([]string{"bin", "dist", "testdata", "localplane", "test", "hack"}, dir)
}
