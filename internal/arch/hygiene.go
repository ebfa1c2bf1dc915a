// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"cmp"
	"go/ast"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// header is the first line of every Go file.
const header = "// SPDX-License-Identifier: Apache-2.0"

// licences checks that every Go file says its licence in its first line.
func (c *checker) licences() {
	for _, p := range c.tree.Packages {
		for _, f := range p.Files {
			if f.FirstLines[0] != header && !f.Generated {
				c.report(f.Name+":1", "", "the first line is not %q", header)
			} else if f.FirstLines[1] != "" && !f.Generated {
				c.report(f.Name+":2", "the header would become part of the package comment", "the licence line is not followed by an empty line")
			}
		}
	}
}

// packageComments checks that each package explains itself, once.
func (c *checker) packageComments() {
	for _, p := range c.tree.Packages {
		comments := p.comments(false)
		if len(comments) == 0 {
			comments = p.comments(true) // a package that consists of tests
		}
		switch {
		case len(comments) == 0:
			c.report(p.Dir, "a reader has to know what a package is for before reading it", "the package has no comment")
		case len(comments) > 1:
			c.report(c.at(comments[1].Pos()), "go doc shows only one of them in its place", "the package has more than one comment")
		case !p.introduces(comments[0].Text()):
			c.report(c.at(comments[0].Pos()), "go doc shows its first sentence in lists", "the package comment does not begin with what it is about")
		}
	}
}

// introduces is whether a package comment begins as it should: "Package name ", or for a program with a line that names it.
func (p *Package) introduces(comment string) bool {
	if p.Name != "main" {
		return strings.HasPrefix(comment, "Package "+p.Name+" ")
	}
	first, _, _ := strings.Cut(comment, "\n")
	return strings.Contains(first, path.Base(p.Dir))
}

// comments are the package comments in the tests of p, or in its other files.
func (p *Package) comments(tests bool) []*ast.CommentGroup {
	docs := []*ast.CommentGroup{}
	for _, f := range p.Files {
		if f.AST.Doc != nil && f.Test == tests {
			docs = append(docs, f.AST.Doc)
		}
	}
	return docs
}

// sizes checks how long files and functions are and how many parameters a function takes.
func (c *checker) sizes() {
	for _, p := range c.tree.Packages {
		limits := c.rules.Limits
		if z := c.rules.zoneOf(p.Dir); z != nil {
			limits.FileLines = cmp.Or(z.MaxLines, limits.FileLines)
			limits.FuncLines = cmp.Or(z.MaxFunc, limits.FuncLines)
		}
		for _, f := range p.Files {
			if f.Generated {
				continue
			}
			if f.Lines > limits.FileLines {
				c.report(f.Name, "split it by concept", "%d lines, at most %d", f.Lines, limits.FileLines)
			}
			if !f.Test {
				c.funcSizes(f, limits)
			}
		}
	}
}

func (c *checker) funcSizes(f *File, limits Limits) {
	for _, decl := range f.AST.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		first, last := c.tree.Fset.Position(fn.Body.Lbrace).Line, c.tree.Fset.Position(fn.Body.Rbrace).Line
		if lines := last - first - 1; lines > limits.FuncLines {
			c.report(c.at(fn.Pos()), "name its steps and make them functions", "func %s has %d lines, at most %d", fn.Name.Name, lines, limits.FuncLines)
		}
		if n := fn.Type.Params.NumFields(); n > limits.Params {
			c.report(c.at(fn.Pos()), "make them a struct", "func %s has %d parameters, at most %d", fn.Name.Name, n, limits.Params)
		}
	}
}

// words looks for text that does not belong into a public repository.
func (c *checker) words() {
	for _, word := range c.rules.Words {
		pattern := regexp.MustCompile(`(?m)` + word.Pattern)
		for _, text := range c.tree.Texts {
			if strings.HasSuffix(text.Name, "go.sum") {
				continue
			}
			for _, at := range pattern.FindAllIndex(text.Data, -1) {
				line := 1 + bytes.Count(text.Data[:at[0]+1], []byte("\n"))
				c.found = append(c.found, Violation{
					Rule: c.rule, Where: text.Name + ":" + strconv.Itoa(line), What: "says " + strings.TrimSpace(string(text.Data[at[0]:at[1]])), Why: word.Reason,
				})
			}
		}
	}
}
