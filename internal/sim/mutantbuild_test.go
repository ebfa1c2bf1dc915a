// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/version"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// builder builds the test program of this package with a mutant in it. It compiles only the package of the mutant, and links it with all others as
// they are in the build cache: that takes a sixth of what a build takes that also compiles all importers. The linker compares what importers have been
// compiled with (the exported declarations, and the functions that are inlined) with what the package exports now. Where that is different, or the
// package needs more than a compiler, the go command builds it all, with an overlay, from the same cache.
type builder struct{ packages map[string]*compiled }

// compiled is a package of the test program, as the go command lists it.
type compiled struct {
	ImportPath, Dir, Export, ForTest string
	GoFiles, SFiles, EmbedFiles      []string
	Module                           *struct{ GoVersion string }
}

func newBuilder(t *testing.T) *builder {
	t.Helper()
	list, err := command(t, "go", "list", "-test", "-deps", "-export", "-json=ImportPath,Dir,Export,ForTest,GoFiles,SFiles,EmbedFiles,Module", ".")
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{packages: map[string]*compiled{}}
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		p := &compiled{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return b
		} else if err != nil {
			t.Fatal(err)
		}
		path, _, _ := strings.Cut(p.ImportPath, " ")
		if p.Export != "" && (b.packages[path] == nil || p.ForTest != "") { // a package with its tests takes the place of the one without
			b.packages[path] = p
		}
	}
}

// command is the standard output of a command; its error has the rest.
func command(t *testing.T, name string, args ...string) ([]byte, error) {
	t.Helper()
	var told bytes.Buffer
	c := exec.CommandContext(t.Context(), name, args...)
	c.Stderr = &told
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", name, args[0], err, out, told.Bytes())
	}
	return out, err
}

// unbroken is the test program without a mutant.
func (b *builder) unbroken(t *testing.T) string {
	t.Helper()
	program, err := b.link(t, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// build is the test program with a mutant.
func (b *builder) build(t *testing.T, m *mutant) string {
	t.Helper()
	dir := t.TempDir()
	original, err := filepath.Abs(filepath.Join("..", m.file))
	if err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(text, []byte(m.patched(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := b.compile(t, original, text)
	if err != nil {
		program, err = b.overlay(t, original, text)
	}
	if err != nil {
		t.Fatalf("it does not compile: %v", err)
	}
	return program
}

// compile compiles the one package that has a file, with another text of it, and links.
func (b *builder) compile(t *testing.T, original, text string) (string, error) {
	t.Helper()
	for path, p := range b.packages {
		if p.Dir != filepath.Dir(original) || p.ForTest != "" {
			continue
		}
		if len(p.SFiles)+len(p.EmbedFiles) > 0 || p.Module == nil {
			return "", fmt.Errorf("package %s needs more than a compiler", path)
		}
		dir := filepath.Dir(text)
		archive, imports := filepath.Join(dir, "mutant.a"), filepath.Join(dir, "imports")
		args := []string{"tool", "compile", "-p", path, "-importcfg", imports, "-pack", "-complete", "-trimpath", dir + "=>" + p.Dir, "-lang", version.Lang("go" + p.Module.GoVersion), "-o", archive}
		for _, file := range p.GoFiles {
			if file = filepath.Join(p.Dir, file); file == original {
				file = text
			}
			args = append(args, file)
		}
		if err := b.writeImports(imports, nil); err != nil {
			return "", err
		}
		if _, err := command(t, "go", args...); err != nil {
			return "", err
		}
		return b.link(t, dir, map[string]string{path: archive})
	}
	return "", fmt.Errorf("no package has %s", original)
}

// link links the test program, with some packages in place of others.
func (b *builder) link(t *testing.T, dir string, instead map[string]string) (string, error) {
	t.Helper()
	program, imports := filepath.Join(dir, "sim.test"), filepath.Join(dir, "linked")
	if err := b.writeImports(imports, instead); err != nil {
		return "", err
	}
	_, err := command(t, "go", "tool", "link", "-importcfg", imports, "-buildmode=exe", "-s", "-w", "-X=testing.testBinary=1", "-o", program, b.packages[b.mainPath()].Export)
	return program, err
}

// mainPath is that of the package that go test makes for the tests of this one.
func (b *builder) mainPath() string {
	paths := sorted(b.packages)
	return paths[slices.IndexFunc(paths, func(path string) bool { return strings.HasSuffix(path, ".test") })]
}

// writeImports writes where a compiler and a linker find the packages.
func (b *builder) writeImports(file string, instead map[string]string) error {
	var lines strings.Builder
	for _, path := range sorted(b.packages) {
		archive := b.packages[path].Export
		if other := instead[path]; other != "" {
			archive = other
		}
		fmt.Fprintf(&lines, "packagefile %s=%s\n", path, archive)
	}
	return os.WriteFile(file, []byte(lines.String()), 0o600)
}

// overlay lets the go command build the test program with another text of a file.
func (b *builder) overlay(t *testing.T, original, text string) (string, error) {
	t.Helper()
	dir := filepath.Dir(text)
	program, list := filepath.Join(dir, "sim.test"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: text}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(list, replace, 0o600); err != nil {
		return "", err
	}
	_, err = command(t, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", list, "-o", program, ".")
	return program, err
}
