// SPDX-License-Identifier: Apache-2.0

// Command licences checks under which licence each module is that programs are built from:
//
//	licences PROGRAM...        fails if a module has no licence, or one that is not on the list
//
// It reads what is in built programs, and the licences from the module cache, so it needs no network. A licence counts for the packages at and below
// the directory where it is, so those of code that a module has taken over (third_party) are found where a program holds such code.
//
// The texts are recognized by licenseclassifier, as in go-licenses, whose maintained version 2 cannot be had from a module proxy.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// own is the prefix of the modules of this repository; its LICENSE applies to them.
const own = "everynode.dev/everynode"

// allowed are the licences under which a part of a program may be.
func allowed() []string { return []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC"} }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(programs []string) error {
	if len(programs) == 0 {
		return errors.New("usage: licences PROGRAM...")
	}
	l, err := newLibrary()
	if err != nil {
		return err
	}
	var errs []error
	for _, program := range programs {
		errs = append(errs, l.check(program, allowed()))
	}
	return errors.Join(errs...)
}

// library knows licences when it sees them.
type library struct{ classifier *classifier.Classifier }

func newLibrary() (*library, error) {
	c, err := assets.DefaultClassifier()
	if err != nil {
		return nil, fmt.Errorf("reading the texts of licences: %w", err)
	}
	return &library{c}, nil
}

// part is a module that a program was built from.
type part struct {
	*debug.Module
	// below are the directories of its packages that are in the program.
	below []string
}

// modules are those that a program was built from, without those of this repository.
func modules(program string) (info *debug.BuildInfo, all []part, err error) {
	info, err = buildinfo.ReadFile(program)
	if err != nil {
		return nil, nil, fmt.Errorf("%s is not a program of Go: %w: build it first (make build)", program, err)
	}
	linked, err := packages(program)
	if err != nil {
		return nil, nil, err
	}
	below := map[string][]string{}
	for _, name := range linked {
		if m := moduleOf(name, info.Deps); m != nil {
			below[m.Path] = append(below[m.Path], strings.TrimPrefix(name[len(m.Path):], "/"))
		}
	}
	for _, m := range info.Deps {
		p := part{m, below[m.Path]}
		if m.Replace != nil {
			p.Module = m.Replace
		}
		if p.Path != own && !strings.HasPrefix(p.Path, own+"/") {
			all = append(all, p)
		}
	}
	return info, all, nil
}

// moduleOf is the module of a package: of several the one with the longest name.
func moduleOf(name string, all []*debug.Module) (found *debug.Module) {
	for _, m := range all {
		if (name == m.Path || strings.HasPrefix(name, m.Path+"/")) && (found == nil || len(m.Path) > len(found.Path)) {
			found = m
		}
	}
	return found
}

func (l *library) check(program string, allowed []string) error {
	_, all, err := modules(program)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range all {
		found, err := l.licences(m)
		for _, licence := range found {
			if !slices.Contains(allowed, licence) {
				err = errors.Join(err, fmt.Errorf("%s %s, a part of %s, is under %s, which is none of %s: do without it, or put the licence on the list in hack/tools/licences",
					m.Path, m.Version, filepath.Base(program), licence, strings.Join(allowed, ", ")))
			}
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Printf("%s: %d modules, all under licences of the list\n", filepath.Base(program), len(all))
	return nil
}

// licences are those in the files of a module that hold some.
func (l *library) licences(m part) ([]string, error) {
	dir, err := directory(m.Module)
	if err != nil {
		return nil, err
	}
	found, err := l.collect(dir, m.below)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", m.Path, m.Version, err)
	}
	return found, nil
}

// collect finds the licences of a module in its own directory, and in those of packages and above them.
func (l *library) collect(module string, packages []string) ([]string, error) {
	found, err := l.read(module)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("there is no licence in %s", module)
	}
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{".": true}
	for _, dir := range packages {
		for ; !seen[path.Clean(dir)]; dir = path.Dir(dir) {
			seen[path.Clean(dir)] = true
			more, err := l.read(filepath.Join(module, dir))
			if errors.Is(err, fs.ErrNotExist) {
				continue // no package: the name of an embedded method
			}
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// read finds licences in the files of a directory that have such a name; the licence of documents does not
// apply to a program. An unknown licence may be any licence.
func (l *library) read(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	called := regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([.-].*)?$`)
	var found []string
	for _, e := range entries {
		if e.IsDir() || !called.MatchString(e.Name()) || slices.Contains([]string{".docs", ".go"}, strings.ToLower(filepath.Ext(e.Name()))) {
			continue
		}
		file := filepath.Join(dir, e.Name())
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		known := false
		for _, match := range l.classifier.Match(text).Matches {
			if match.MatchType != "License" {
				continue
			}
			if known = true; !slices.Contains(found, match.Name) {
				found = append(found, match.Name)
			}
		}
		if !known {
			return nil, fmt.Errorf("%s holds no licence that is known: do without the module, or read it and say so in hack/tools/licences", file)
		}
	}
	slices.Sort(found)
	return found, nil
}

// directory is where the module cache has a module.
func directory(m *debug.Module) (string, error) {
	out, err := exec.Command("go", "mod", "download", "-json", m.Path+"@"+m.Version).Output()
	if err != nil {
		return "", fmt.Errorf("finding %s %s in the module cache: %w: build the program on this machine first", m.Path, m.Version, err)
	}
	var answer struct{ Dir string }
	if err := json.Unmarshal(out, &answer); err != nil {
		return "", fmt.Errorf("finding %s %s in the module cache: %w", m.Path, m.Version, err)
	}
	return answer.Dir, nil
}
