// SPDX-License-Identifier: Apache-2.0

package report

import "strings"

// Table is rows below a head. A row that is shorter than the head ends with empty cells.
type Table struct {
	Head []string
	Rows [][]string
	// Words is the number of left columns with words; the other columns have numbers.
	Words int
}

// Markdown returns the table in Markdown, with numbers aligned to the right.
func (t Table) Markdown() string {
	var b strings.Builder
	line := func(cells []string) {
		for i := range t.Head {
			cell := ""
			if i < len(cells) {
				cell = strings.ReplaceAll(cells[i], "|", `\|`)
			}
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
	}
	line(t.Head)
	for i := range t.Head {
		if i < t.Words {
			b.WriteString("|---")
		} else {
			b.WriteString("|--:")
		}
	}
	b.WriteString("|\n")
	for _, row := range t.Rows {
		line(row)
	}
	return b.String()
}
