// SPDX-License-Identifier: Apache-2.0

// Command licences says under which licence each module is that programs are built from.
//
//	licences check PROGRAM...        fails if a module has no licence, or one that is not on the list
//	licences sbom PROGRAM            prints a software bill of materials: CycloneDX, as JSON
//
// Both read what is in built programs, and the licences from the module cache: neither needs a network.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// own is what the modules of this repository begin with; their licence is its LICENSE.
const own = "everynode.dev/everynode"

// allowed are the licences under which a part of a program may be.
func allowed() []string { return []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC"} }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 || args[0] == "sbom" && len(args) != 2 {
		return errors.New("usage: licences check PROGRAM..., or licences sbom PROGRAM")
	}
	l, err := newLibrary()
	if err != nil {
		return err
	}
	switch args[0] {
	case "check":
		var errs []error
		for _, program := range args[1:] {
			errs = append(errs, l.check(program, allowed()))
		}
		return errors.Join(errs...)
	case "sbom":
		return l.sbom(args[1], os.Stdout)
	}
	return fmt.Errorf("unknown command %q: write check or sbom", args[0])
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

// modules are those that a program was built from, without those of this repository.
func modules(program string) (info *debug.BuildInfo, all []*debug.Module, err error) {
	info, err = buildinfo.ReadFile(program)
	if err != nil {
		return nil, nil, fmt.Errorf("%s is no program of Go: %w: build it first (make build)", program, err)
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Path != own && !strings.HasPrefix(m.Path, own+"/") {
			all = append(all, m)
		}
	}
	return info, all, nil
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
func (l *library) licences(m *debug.Module) ([]string, error) {
	dir, err := directory(m)
	if err != nil {
		return nil, err
	}
	found, err := l.read(dir)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s %s has no licence that is known, in %s", m.Path, m.Version, dir)
	}
	return found, err
}

// read finds licences in the files of a directory that are named so; that of documents is not about a program.
func (l *library) read(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	called := regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([.-].*)?$`)
	var found []string
	for _, e := range entries {
		if e.IsDir() || !called.MatchString(e.Name()) || strings.HasSuffix(strings.ToLower(e.Name()), ".docs") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		for _, match := range l.classifier.Match(text).Matches {
			if match.MatchType == "License" && !slices.Contains(found, match.Name) {
				found = append(found, match.Name)
			}
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
