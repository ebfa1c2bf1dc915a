// SPDX-License-Identifier: Apache-2.0

// Command web builds the page of kubectl everynode dashboard:
//
//	go run ./web ROOT         writes ROOT/internal/cli/dashboard/static from ROOT/web
//
// The result depends on nothing but the files below web and the version of esbuild in go.mod, and is
// committed, so that building the plugin requires neither. The test of this package checks that both agree.
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: web ROOT")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// target is where the files are written, below the root of the repository.
const target = "internal/cli/dashboard/static"

func run(root string) error {
	files, err := build(filepath.Join(root, "web"))
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(root, target, name), files[name], 0o644); err != nil {
			return fmt.Errorf("writing the page: %w", err)
		}
	}
	return nil
}

// banner is the notice that the licence of Preact asks for.
const banner = "/*! with Preact, copyright (c) 2015-present Jason Miller, MIT License: see licences.txt */"

// build returns the files of the page.
func build(source string) (map[string][]byte, error) {
	files := map[string][]byte{}
	source, err := filepath.Abs(source)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", source, err)
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: source, EntryPoints: []string{"src/app.tsx", "src/app.css"}, Bundle: true, Outdir: "out", Write: false,
		MinifyWhitespace: true, MinifySyntax: true, MinifyIdentifiers: true, Target: api.ES2022, Charset: api.CharsetUTF8,
		Format: api.FormatESModule, JSX: api.JSXTransform, JSXFactory: "h", JSXFragment: "Fragment", LegalComments: api.LegalCommentsNone,
		Alias:  map[string]string{"preact": "./vendor/preact/preact.mjs", "preact/hooks": "./vendor/preact/hooks.mjs"},
		Banner: map[string]string{"js": banner},
	})
	var errs []error
	for _, m := range append(result.Errors, result.Warnings...) {
		where := ""
		if m.Location != nil {
			where = fmt.Sprintf("%s:%d: ", m.Location.File, m.Location.Line)
		}
		errs = append(errs, errors.New(where+m.Text))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for i := range result.OutputFiles {
		files[filepath.Base(result.OutputFiles[i].Path)] = result.OutputFiles[i].Contents
	}
	declared, err := tokens(filepath.Join(source, "vendor/primer"), files["app.css"])
	if err != nil {
		return nil, err
	}
	files["app.css"] = append(declared, files["app.css"]...)
	for from, to := range map[string]string{"src/index.html": "index.html", "src/icon.svg": "icon.svg"} {
		if files[to], err = os.ReadFile(filepath.Join(source, from)); err != nil {
			return nil, fmt.Errorf("reading the page: %w", err)
		}
	}
	files["licences.txt"], err = licences(source)
	return files, err
}

// licences returns the licences of what the page contains.
func licences(source string) ([]byte, error) {
	var all []string
	for _, of := range [][2]string{{"preact", "The page contains Preact (https://preactjs.com)."}, {"primer", "Its colours are those of Primer (https://primer.style/primitives)."}} {
		data, err := os.ReadFile(filepath.Join(source, "vendor", of[0], "LICENSE"))
		if err != nil {
			return nil, fmt.Errorf("reading a licence: %w", err)
		}
		all = append(all, of[1]+"\n\n"+strings.TrimLeft(string(data), "\n"))
	}
	return []byte(strings.Join(all, "\n")), nil
}
