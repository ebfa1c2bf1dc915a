// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/cli/options"
)

// pagesWithCommands are the pages that people write.
func pagesWithCommands(t *testing.T) []string {
	t.Helper()
	pages := []string{"../../README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/dialects/*.md", "../../docs/runbooks/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("found no page %s: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	return pages
}

// TestPagesNameVerbs: no page names a verb of the plugin, or a flag of one, that is not there.
func TestPagesNameVerbs(t *testing.T) {
	root := command.Root(options.New(genericiooptions.IOStreams{In: os.Stdin, Out: io.Discard, ErrOut: io.Discard}))
	count, flags := 0, 0
	verb := regexp.MustCompile("kubectl everynode ([a-z][a-z-]+)(?: (list|release|upgrade|pull)\\b)?([^`\n|#&>]*)")
	for _, page := range pagesWithCommands(t) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range verb.FindAllStringSubmatch(string(data), -1) {
			args := match[1:3]
			if args[1] == "" {
				args = args[:1]
			}
			found, rest, err := root.Find(args)
			if count++; err != nil || found == root || len(rest) > 0 {
				t.Errorf("%s names %q, which is no verb", page, args)
				continue
			}
			words := strings.Fields(match[3])
			if found, _, err = root.Find(slices.Concat(args, words)); err != nil { // adopt openyurt
				t.Errorf("%s names %q: %v", page, match[0], err)
				continue
			}
			for _, word := range words {
				name, isFlag := strings.CutPrefix(word, "-")
				if !isFlag || name == "" {
					continue
				}
				flags++
				known := found.Flags().ShorthandLookup(name[:1]) != nil || found.InheritedFlags().ShorthandLookup(name[:1]) != nil
				if long, isLong := strings.CutPrefix(name, "-"); isLong {
					long, _, _ = strings.Cut(long, "=")
					known = found.Flags().Lookup(long) != nil || found.InheritedFlags().Lookup(long) != nil
				}
				if !known {
					t.Errorf("%s names %q, and that verb has no flag %s", page, match[0], word)
				}
			}
		}
	}
	if count == 0 || flags == 0 {
		t.Errorf("pages name %d verbs and %d flags: that is not how they are found", count, flags)
	}
}
