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

// Output formats.
const (
	OutputTable = "table" // for users
	OutputWide  = "wide"  // for users with wide terminals
	OutputJSON  = "json"
	OutputYAML  = "yaml"
)

// Outputs returns the output formats.
func Outputs() []string { return []string{OutputTable, OutputWide, OutputJSON, OutputYAML} }

// Validate validates the common flags.
func (o *Options) Validate() error {
	if !slices.Contains(Outputs(), o.Output) {
		return Usagef("--output %q is not known: write one of %s", o.Output, strings.Join(Outputs(), ", "))
	}
	return nil
}

// Wide reports whether tables have all columns.
func (o *Options) Wide() bool { return o.Output == OutputWide }

// ForMachines reports whether the output is for programs.
func (o *Options) ForMachines() bool { return o.Output == OutputJSON || o.Output == OutputYAML }

// Note prints additional information for the user.
func (o *Options) Note(format string, args ...any) {
	// An error while printing a note is ignored.
	_, _ = fmt.Fprintln(o.ErrOut, Printable("Note: "+fmt.Sprintf(format, args...)))
}

// Size formats the size of an image.
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

// Print prints v as JSON or YAML, or calls table.
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

// Columns prints rows with aligned columns. Control characters are removed: names and messages come from the cluster
// and must not control the terminal.
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

// Printable removes control characters, including line ends.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, text)
}

// PrintableLines removes control characters except line ends.
func PrintableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Printable(line)
	}
	return strings.Join(lines, "\n")
}
