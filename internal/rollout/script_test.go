// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// updateScripts is the only way to change an expectation other than by hand: go test ./internal/rollout -update.
var updateScripts = flag.Bool("update", false, "write what the scripts in testdata print instead of comparing it")

// TestScripts runs testdata/*.txt. A script is a list of blocks: a command with its arguments, lines of input, a line of four
// dashes, the expected output, an empty line. Lines that begin with # are comments and belong to the block after them.
//
//	world     describes the imaginary cluster anew (see notation_test.go for the lines)
//	change    adds such lines to what is there
//	decide    prints the plan, changes nothing
//	ending    prints the plan of a manager that is being stopped for good, and what it would still wait for
//	run       applies the plan and lets the world go on, to a fixed point or for steps=N; prints one line for each step
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata (%v)", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) { runScript(t, file) })
	}
}

// block is one command of a script.
type block struct {
	comments []string
	command  string
	input    []string
	want     string
}

func runScript(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	blocks := parseScript(string(data))
	if len(blocks) == 0 {
		t.Fatalf("%s has no commands", file)
	}
	play := &player{}
	for i := range blocks {
		b := &blocks[i]
		got, err := play.do(b.command, b.input)
		if err != nil {
			got += "error: " + err.Error() + "\n"
		}
		if got != b.want && !*updateScripts {
			t.Errorf("%s\n%s\nprints:\n%s\nexpected:\n%s", b.command, strings.Join(b.input, "\n"), got, b.want)
		}
		b.want = got
	}
	if *updateScripts {
		if err := os.WriteFile(file, []byte(formatScript(blocks)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func parseScript(text string) []block {
	var blocks []block
	var b block
	inOutput := false
	for line := range strings.Lines(text + "\n") {
		line = strings.TrimRight(line, "\n")
		switch {
		case inOutput && line == "":
			blocks, b, inOutput = append(blocks, b), block{}, false
		case inOutput:
			b.want += line + "\n"
		case line == "----":
			inOutput = true
		case strings.HasPrefix(line, "#") && b.command == "":
			b.comments = append(b.comments, line)
		case b.command == "":
			b.command = line
		default:
			b.input = append(b.input, line)
		}
	}
	if b.command != "" {
		blocks = append(blocks, b)
	}
	return blocks
}

func formatScript(blocks []block) string {
	var out []string
	for _, b := range blocks {
		lines := append(append(b.comments, b.command), b.input...)
		out = append(out, strings.Join(lines, "\n")+"\n----\n"+b.want)
	}
	return strings.Join(out, "\n")
}

func TestScriptRoundTrip(t *testing.T) {
	const text = "# why\nworld a\nnode a\n----\nok\n\ndecide\n----\nplan\n"
	if got := formatScript(parseScript(text)); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
}
