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

// Page is a page of the documentation, as far as it is typed.
//
// What is typed are the lines of indented blocks that begin with a program, without the comments behind them; the lines after such a line, up to the next
// one, are what it prints. A line that ends with a backslash goes on in the next one. In a block that begins with "$ " these are the lines that do, whatever
// they run. What cannot be typed is marked, on a line of its own before the block: <!-- not typed: REASON -->.
type Page struct {
	// Name is where the page is in the repository.
	Name string
	// Text is all of it.
	Text string
	// Commands stand in the order of the page.
	Commands []PageCommand
}

// PageCommand is a command of a page.
type PageCommand struct {
	Text string
	// Line is where it stands, and Section the heading of the second level above it.
	Line    int
	Section string
	// Shows are the lines that the page shows as its output.
	Shows []string
	// Untyped is why it is not typed; empty for one that is.
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

// programs are what commands of pages begin with.
func programs() []string {
	return []string{"apt-get", "bin/everynode-manager", "bin/localplane", "curl", "export", "helm", "kubectl", "make", "sed", "skopeo"}
}

// prompt is what commands begin with in a block that shows a terminal.
const prompt = "$ "

// codeIndent is what makes a line one of an indented block; within a list there is more of it.
const codeIndent = "    "

// commandsOf are the commands of a page with that text.
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

// pageReader goes through a page line by line.
type pageReader struct {
	comment, mark *regexp.Regexp
	commands      []PageCommand
	section       string
	fenced        bool // within a fenced block
	inside        bool // within an indented block
	prompted      bool // whose commands have a prompt
	goesOn        bool // the command of the line before is not complete
	// untyped is the reason of the mark of this block, pending that of a mark whose block has not come yet.
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
	case r.fenced, trimmed == "": // an indented block goes on behind an empty line
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
		return fmt.Errorf("the block begins with %q, which is no program of commands: fence what is not typed, or add it to %q", program, programs())
	default:
		last := &r.commands[len(r.commands)-1]
		last.Shows = append(last.Shows, strings.TrimRight(strings.TrimPrefix(line, codeIndent), " "))
	}
	return nil
}

// leave ends a block. After a mark there has to be one, and after a backslash a line.
func (r *pageReader) leave() error {
	r.inside = false
	if r.goesOn {
		return fmt.Errorf("the command %q does not go on", r.commands[len(r.commands)-1].Text)
	}
	if r.pending != "" {
		return fmt.Errorf("no indented block follows the mark of what is not typed (%s)", r.pending)
	}
	return nil
}
