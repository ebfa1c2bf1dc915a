// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// imports checks each import against the zone's list.
func (c *checker) imports() {
	c.eachSource(func(p *Package, f *File) {
		z := c.rules.zoneOf(p.Dir)
		if z == nil {
			return
		}
		for _, spec := range f.AST.Imports {
			c.checkImport(z, spec)
		}
	})
}

func (c *checker) checkImport(z *Zone, spec *ast.ImportSpec) {
	name := importPath(spec)
	if i := slices.IndexFunc(z.Bans, func(b Ban) bool { return b.What == name }); i >= 0 {
		c.report(c.at(spec.Pos()), z.Bans[i].Reason, "zone %q must not import %s", z.Name, name)
		return
	}
	if !slices.ContainsFunc(z.May, func(pattern string) bool { return c.allows(pattern, name) }) {
		c.report(c.at(spec.Pos()), z.Reason, "zone %q must not import %s", z.Name, name)
	}
}

// allows is whether a pattern of Zone.May covers the import path name.
func (c *checker) allows(pattern, name string) bool {
	local, isLocal := c.local(name)
	if want, ok := strings.CutPrefix(pattern, "./"); ok {
		return isLocal && matches(want, local)
	}
	switch pattern {
	case "*":
		return true
	case "std":
		return !isLocal && isStd(name)
	}
	return matches(pattern, name)
}

// local is the directory of a package of this repository.
func (c *checker) local(name string) (string, bool) {
	if len(c.tree.Modules) == 0 {
		return "", false
	}
	root := c.tree.Modules[0].Path
	if name == root {
		return ".", true
	}
	return strings.CutPrefix(name, root+"/")
}

// isStd is whether an import path belongs to the standard library: only there the first element has no dot.
func isStd(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

func importPath(spec *ast.ImportSpec) string {
	name, err := strconv.Unquote(spec.Path.Value)
	if err != nil { // the parser accepts only well-formed literals
		return spec.Path.Value
	}
	return name
}

// CheckDeps compares what the packages of a zone reach by any chain of imports with the zone's Deep bans.
func CheckDeps(z Zone, deps []string) []Violation {
	found := []Violation{}
	for _, dep := range deps {
		for _, ban := range z.Deep {
			if matches(ban.What+"/...", dep) {
				found = append(found, Violation{Rule: "deps", Where: "zone " + z.Name, What: "reaches " + dep, Why: ban.Reason})
			}
		}
	}
	return found
}

// modules checks what each go.mod requires.
func (c *checker) modules() {
	for _, m := range c.tree.Modules {
		for _, ban := range c.rules.Modules {
			if m.Dir == ban.Dir && slices.Contains(m.Requires, ban.Require) {
				c.report(m.file(), ban.Reason, "must not require %s", ban.Require)
			}
		}
		if m.Dir == "." && m.Replaces {
			c.report(m.file(), "a replacement does not hold for those who import the module", "must not replace a module")
		}
	}
	for _, text := range c.tree.Texts {
		if text.Name == "go.work" {
			c.report("go.work", "the modules have to build as they are released, one by one", "must not be committed")
		}
	}
}

func (m *Module) file() string { return strings.TrimPrefix(m.Dir+"/go.mod", "./") }
