// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Page is a page of the documentation with its commands.
//
// Commands are the lines of indented blocks that begin with a program, without their comments; the lines after a
// command, up to the next one, are its output. A line that ends with a backslash continues in the next one. In a block
// that begins with "$ ", the commands are the lines with this prefix, whatever they run. A block that cannot be run has
// a mark on a line before it: <!-- not typed: REASON -->.
type Page struct {
	// Name is the path of the page in the repository.
	Name string
	// Text is the content.
	Text string
	// Commands are in the order of the page.
	Commands []PageCommand
}

// PageCommand is a command of a page.
type PageCommand struct {
	Text string
	// Line is the line number, and Section the second-level heading.
	Line    int
	Section string
	// Shows are the lines that the page shows as output.
	Shows []string
	// Untyped is the reason why it is not run; empty if it is.
	Untyped string
}

// ReadPage reads a page, for a test whose directory is two levels below that of the repository.
func ReadPage(t testing.TB, name string) *Page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	page := &Page{Name: name, Text: string(text)}
	if err == nil {
		page.Commands, err = commandsOf(page.Text)
	}
	if err != nil {
		t.Fatalf("reading the commands of %s: %v", name, err)
	}
	return page
}

// programs returns the programs with which commands of pages begin.
func programs() []string {
	return []string{"apt-get", "bin/everynode-manager", "bin/localplane", "cosign", "curl", "export", "helm", "kubectl", "make", "sed", "skopeo"}
}

// prompt is the prefix of commands in a block that shows a terminal.
const prompt = "$ "

// codeIndent is the minimum indentation of an indented block.
const codeIndent = "    "

// commandsOf returns the commands of a page with that text.
func commandsOf(text string) ([]PageCommand, error) {
	r := pageReader{
		comment: regexp.MustCompile(`\s+#\s.*$`),
		mark:    regexp.MustCompile(`^<!-- not typed: (.+) -->$`),
	}
	for i, line := range strings.Split(text, "\n") {
		if err := r.take(i+1, line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return r.commands, r.leave()
}

// pageReader reads a page line by line.
type pageReader struct {
	comment, mark *regexp.Regexp
	commands      []PageCommand
	section       string
	fenced        bool // in a fenced block
	inside        bool // in an indented block
	prompted      bool // its commands have a prompt
	goesOn        bool // the command of the line before is not complete
	// untyped is the reason in the mark of this block, pending the reason in a mark whose block follows.
	untyped, pending string
}

// take reads one line.
func (r *pageReader) take(number int, line string) error {
	trimmed := strings.TrimSpace(line)
	mark := r.mark.FindStringSubmatch(trimmed)
	switch {
	case strings.HasPrefix(trimmed, "```"):
		r.fenced = !r.fenced
		return r.leave()
	case r.fenced, trimmed == "": // an indented block continues after an empty line
		return nil
	case mark != nil:
		err := r.leave()
		r.pending = mark[1]
		return err
	case strings.HasPrefix(line, codeIndent):
		return r.code(number, line)
	}
	if heading, ok := strings.CutPrefix(line, "## "); ok {
		r.section = heading
	}
	return r.leave()
}

// code reads a line of an indented block, which begins with a command.
func (r *pageReader) code(number int, line string) error {
	begins := !r.inside
	text, prompted := strings.CutPrefix(r.comment.ReplaceAllString(strings.TrimSpace(line), ""), prompt)
	if begins {
		r.inside, r.prompted, r.untyped, r.pending = true, prompted, r.pending, ""
	}
	program, _, _ := strings.Cut(text, " ")
	text, more := strings.CutSuffix(text, "\\")
	switch {
	case r.goesOn:
		r.commands[len(r.commands)-1].Text += text
		r.goesOn = more
	case prompted || !r.prompted && slices.Contains(programs(), program):
		r.commands = append(r.commands, PageCommand{Text: text, Line: number, Section: r.section, Untyped: r.untyped})
		r.goesOn = more
	case begins:
		return fmt.Errorf("the block begins with %q, which is not a program of commands: fence what is not typed, or add it to %q", program, programs())
	default:
		last := &r.commands[len(r.commands)-1]
		last.Shows = append(last.Shows, strings.TrimRight(strings.TrimPrefix(line, codeIndent), " "))
	}
	return nil
}

// leave ends a block. A mark must be followed by a block, and a backslash by a line.
func (r *pageReader) leave() error {
	r.inside = false
	if r.goesOn {
		return fmt.Errorf("the command %q is incomplete", r.commands[len(r.commands)-1].Text)
	}
	if r.pending != "" {
		return fmt.Errorf("no indented block follows the mark of what is not typed (%s)", r.pending)
	}
	return nil
}
