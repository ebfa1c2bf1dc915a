// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// tokens returns the design tokens that a style sheet uses, as declarations for light and for dark: the files of Primer have thousands of them.
func tokens(dir string, css []byte) ([]byte, error) {
	var light, dark map[string]string
	var err error
	for _, file := range []struct {
		into  *map[string]string
		names []string
	}{{&light, []string{"light.css", "radius.css", "typography.css"}}, {&dark, []string{"dark.css"}}} {
		*file.into = map[string]string{}
		for _, name := range file.names {
			err = errors.Join(err, read(filepath.Join(dir, name), *file.into))
		}
	}
	if err != nil {
		return nil, err
	}
	used, own := map[string]bool{}, regexp.MustCompile(`[{;](--[\w-]+):`)
	for _, found := range own.FindAllSubmatch(css, -1) {
		used[string(found[1])] = false // the style sheet has its own value
	}
	if err := use(string(css), used, light, dark); err != nil {
		return nil, err
	}
	declare := func(values map[string]string) (text string) {
		for _, name := range slices.Sorted(maps.Keys(used)) {
			if value, has := values[name]; has && used[name] {
				text += name + ":" + value + ";"
			}
		}
		return ":root{" + strings.TrimSuffix(text, ";") + "}"
	}
	return []byte(declare(light) + "@media (prefers-color-scheme:dark){" + declare(dark) + "}\n"), nil
}

// use notes the tokens that a text uses, and those that their values use.
func use(text string, used map[string]bool, light, dark map[string]string) error {
	for _, found := range regexp.MustCompile(`var\((--[\w-]+)\)`).FindAllStringSubmatch(text, -1) {
		name := found[1]
		if _, known := used[name]; known {
			continue
		}
		if light[name] == "" {
			return fmt.Errorf("the style sheet uses %s, which neither it nor Primer declares", name)
		}
		used[name] = true
		if err := use(light[name]+dark[name], used, light, dark); err != nil {
			return err
		}
	}
	return nil
}

// read reads the declarations of the first rule of a file.
func read(path string, into map[string]string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading design tokens: %w", err)
	}
	text := regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(string(data), "")
	_, text, _ = strings.Cut(text, "{")
	text, _, _ = strings.Cut(text, "}")
	for _, found := range regexp.MustCompile(`(--[\w-]+):\s*([^;]*?)\s*;`).FindAllStringSubmatch(text, -1) {
		into[found[1]] = found[2]
	}
	return nil
}
