// SPDX-License-Identifier: Apache-2.0

package options

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"
)

// The ways to print.
const (
	OutputTable = "table" // for people
	OutputWide  = "wide"  // for people with wide terminals
	OutputJSON  = "json"
	OutputYAML  = "yaml"
)

// Outputs are the ways to print.
func Outputs() []string { return []string{OutputTable, OutputWide, OutputJSON, OutputYAML} }

// Validate says what is wrong with the flags that all verbs share.
func (o *Options) Validate() error {
	if !slices.Contains(Outputs(), o.Output) {
		return Usagef("--output %q is not known: write one of %s", o.Output, strings.Join(Outputs(), ", "))
	}
	return nil
}

// Wide is whether a table is to say everything.
func (o *Options) Wide() bool { return o.Output == OutputWide }

// ForMachines is whether what is printed is to be read by a program.
func (o *Options) ForMachines() bool { return o.Output == OutputJSON || o.Output == OutputYAML }

// Note tells what the user should know besides.
func (o *Options) Note(format string, args ...any) {
	// A note that cannot be printed changes nothing.
	_, _ = fmt.Fprintln(o.ErrOut, Printable("Note: "+fmt.Sprintf(format, args...)))
}

// Size is a number of bytes of an image, for people.
func Size(bytes int64) string {
	const kib, mib = 1 << 10, 1 << 20
	switch {
	case bytes < mib:
		return fmt.Sprintf("%d KiB", (bytes+kib-1)/kib)
	case bytes < 10*mib:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/mib)
	default:
		return fmt.Sprintf("%.0f MiB", float64(bytes)/mib)
	}
}

// Print prints v as JSON or YAML, or has table print it for people.
func (o *Options) Print(v any, table func(io.Writer) error) error {
	switch o.Output {
	case OutputJSON:
		data, err := json.MarshalIndent(v, "", "  ")
		return o.write(append(data, '\n'), err)
	case OutputYAML:
		data, err := yaml.Marshal(v)
		return o.write(data, err)
	default:
		return table(o.Out)
	}
}

func (o *Options) write(data []byte, err error) error {
	if err == nil {
		_, err = o.Out.Write(data)
	}
	if err != nil {
		return fmt.Errorf("printing as %s: %w", o.Output, err)
	}
	return nil
}

// Columns prints rows one below the other, each column as wide as its widest entry. Control characters are dropped: names and messages
// come from the cluster and must not steer the terminal.
func Columns(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		clean := make([]string, len(row))
		for i, cell := range row {
			clean[i] = Printable(cell)
		}
		if _, err := fmt.Fprintln(t, strings.Join(clean, "\t")); err != nil {
			return fmt.Errorf("printing a table: %w", err)
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("printing a table: %w", err)
	}
	return nil
}

// Printable drops control characters, line ends among them.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, text)
}

// PrintableLines drops control characters, but no line ends.
func PrintableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Printable(line)
	}
	return strings.Join(lines, "\n")
}
