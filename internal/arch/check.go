// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"cmp"
	"fmt"
	"go/token"
	"path"
	"slices"
	"strings"
)

// Violation is one place where a rule is broken.
type Violation struct {
	// Rule is the name of the rule, one of RuleNames.
	Rule string
	// Where is a file with a line, or a directory.
	Where string
	// What is broken, and Why that matters.
	What, Why string
}

// String is one line for a person.
func (v Violation) String() string {
	s := fmt.Sprintf("%s: %s [%s]", v.Where, v.What, v.Rule)
	if v.Why != "" {
		s += ": " + v.Why
	}
	return s
}

// checks are the rules by name; each reports through its checker.
func checks() map[string]func(*checker) {
	return map[string]func(*checker){
		"zones":    (*checker).zones,
		"imports":  (*checker).imports,
		"calls":    (*checker).calls,
		"pure":     (*checker).pure,
		"context":  (*checker).contexts,
		"init":     (*checker).inits,
		"globals":  (*checker).globals,
		"comments": (*checker).packageComments,
		"licence":  (*checker).licences,
		"size":     (*checker).sizes,
		"modules":  (*checker).modules,
		"words":    (*checker).words,
	}
}

// RuleNames are the names of all rules, sorted.
func RuleNames() []string {
	names := []string{}
	for name := range checks() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Check returns every violation of the rules in the tree, sorted by place.
func Check(t *Tree, r Rules) []Violation {
	c := &checker{tree: t, rules: r}
	all := checks()
	for _, name := range RuleNames() {
		c.rule = name
		all[name](c)
	}
	c.rule = "exceptions"
	c.except()
	slices.SortStableFunc(c.found, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Where, b.Where), strings.Compare(a.Rule, b.Rule))
	})
	return c.found
}

// checker collects violations.
type checker struct {
	tree  *Tree
	rules Rules
	rule  string
	found []Violation
}

// except takes away the violations that an exception allows, and reports the exceptions that allow none.
func (c *checker) except() {
	for _, e := range c.rules.Exceptions {
		before := len(c.found)
		c.found = slices.DeleteFunc(c.found, func(v Violation) bool {
			return v.Rule == e.Rule && (v.Where == e.Place || strings.HasPrefix(v.Where, e.Place+":") || strings.HasPrefix(v.Where, e.Place+"/"))
		})
		if len(c.found) == before {
			c.report(e.Place, "an exception that nobody needs hides the next breach", "keeps the rule %s, so it needs no exception from it", e.Rule)
		}
	}
}

func (c *checker) report(where, why, format string, args ...any) {
	c.found = append(c.found, Violation{Rule: c.rule, Where: where, What: fmt.Sprintf(format, args...), Why: why})
}

// at is file:line of a position.
func (c *checker) at(pos token.Pos) string {
	p := c.tree.Fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// eachSource calls visit for every file that is neither a test nor generated.
func (c *checker) eachSource(visit func(p *Package, f *File)) {
	for _, p := range c.tree.Packages {
		for _, f := range p.Files {
			if !f.Test && !f.Generated {
				visit(p, f)
			}
		}
	}
}

// zoneOf is the zone that names the package in dir, or nil.
func (r Rules) zoneOf(dir string) *Zone {
	for i := range r.Zones {
		if slices.ContainsFunc(r.Zones[i].Packages, func(pattern string) bool { return matches(pattern, dir) }) {
			return &r.Zones[i]
		}
	}
	return nil
}

// matches is whether name is the pattern, or lies below it when the pattern ends in "/...".
func matches(pattern, name string) bool {
	tree, below := strings.CutSuffix(pattern, "/...")
	return name == tree || below && strings.HasPrefix(name, tree+"/")
}

// zones finds packages without a zone, and zones without a package: either would let a rule rot.
func (c *checker) zones() {
	for _, p := range c.tree.Packages {
		if c.rules.zoneOf(p.Dir) == nil {
			c.report(p.Dir, "every package has to know what it may import", "no zone names this package; add it to internal/arch/zones.go")
		}
	}
	for _, z := range c.rules.Zones {
		for _, pattern := range z.Packages {
			c.mustExist(z, pattern)
		}
		for _, pattern := range z.May {
			if local, isLocal := strings.CutPrefix(pattern, "./"); isLocal {
				c.mustExist(z, local)
			}
		}
	}
}

func (c *checker) mustExist(z Zone, pattern string) {
	found := slices.ContainsFunc(c.tree.Packages, func(p *Package) bool { return matches(pattern, p.Dir) })
	if !found {
		c.report(path.Clean(strings.TrimSuffix(pattern, "/...")), "a rule about nothing is a rule that nobody keeps",
			"zone %q names %s, which does not exist", z.Name, pattern)
	}
}
