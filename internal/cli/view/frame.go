// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"everynode.dev/everynode/internal/rollout"
)

// Size is the size of a terminal in characters.
type Size struct{ Width, Height int }

const (
	// A terminal that does not tell its size, or an absurd one, is taken for the classic one.
	usualWidth, usualHeight = 80, 24
	// At least this much room is needed to draw anything sensible; a smaller terminal gets clipped lines.
	leastWidth, leastHeight = 20, 8
	// leastCellRows is the room kept for the cells: one row and the line that says what a character stands for.
	leastCellRows = 2
	barWidth      = 20
	// waitLines and waitNames limit how many reasons and how many nodes of each are shown; the rest is counted.
	waitLines, waitNames = 4, 4
)

// normal returns s with sizes that can be worked with.
func (s Size) normal() Size {
	if s.Width <= 0 {
		s.Width = usualWidth
	}
	if s.Height <= 0 {
		s.Height = usualHeight
	}
	return Size{Width: max(s.Width, leastWidth), Height: max(s.Height, leastHeight)}
}

// span is text of one tone, line is one line of a frame.
type (
	span struct {
		text string
		tone tone
	}
	line []span
)

// frame lays a model out for a terminal of that size: no line is longer than its width, and there are fewer lines than
// its height, so that the frame can be drawn over itself.
func frame(m Model, size Size, g glyphs) []line {
	size = size.normal()
	lines := []line{header(m), progressLine(m, g)}
	tail := append(wrap(legend(m, g), size.Width), waitsOf(m, g)...)
	room := size.Height - 1 - len(lines)
	tail = tail[:min(len(tail), room-leastCellRows)]
	lines = append(lines, cellRows(m.Cells, size.Width, room-len(tail), g)...)
	lines = append(lines, tail...)
	for i := range lines {
		lines[i] = lines[i].clip(size.Width)
	}
	return lines
}

// header names the set, the revision it is brought to, how long that may still take, and what other revisions have pods.
func header(m Model) line {
	l := line{{m.Title, strong}, {" to revision ", plain}, {m.Target, strong}}
	if m.Started != 0 {
		l = append(l, span{"  after " + Duration(m.elapsed()), plain})
	}
	if forecast := m.forecast(); forecast != "" {
		l = append(l, span{", " + forecast, plain})
	}
	var others []string
	for _, r := range m.Revisions {
		if r.Name != m.Target {
			others = append(others, fmt.Sprintf("%d of %s", r.Pods, r.Name))
		}
	}
	if len(others) > 0 {
		l = append(l, span{"  (pods left: " + strings.Join(others, ", ") + ")", faint})
	}
	return l
}

// progressLine holds the bar and the numbers.
func progressLine(m Model, g glyphs) line {
	return append(bar(m, barWidth, g), span{"  " + m.progress() + ", " + m.budget(), plain})
}

// bar draws the share of nodes that are done, that are updated but not available, and that are neither.
func bar(m Model, cells int, g glyphs) line {
	full, half := 0, 0
	if desired := m.Status.Desired; desired > 0 {
		full = clamp(m.Done*cells/desired, 0, cells)
		half = clamp(m.Status.Updated*cells/desired-full, 0, cells-full)
	}
	return line{
		{strings.Repeat(string(g.full), full), good},
		{strings.Repeat(string(g.half), half), busy},
		{strings.Repeat(string(g.empty), cells-full-half), faint},
	}
}

func clamp(n, least, most int) int { return min(max(n, least), most) }

// cellRows draws one character per node. When the nodes do not fit into the rows (at least two), each character stands
// for several nodes and shows the one of them that most wants attention.
func cellRows(cells []Cell, width, rows int, g glyphs) []line {
	if len(cells) == 0 {
		return nil
	}
	each := 1
	if len(cells) > rows*width {
		places := (rows - 1) * width
		each = (len(cells) + places - 1) / places
	}
	var lines []line
	for len(cells) > 0 {
		var row line
		for len(row) < width && len(cells) > 0 {
			n := min(each, len(cells))
			row = append(row, worst(cells[:n]).draw(g))
			cells = cells[n:]
		}
		lines = append(lines, row)
	}
	if each > 1 {
		lines = append(lines, line{{fmt.Sprintf("(each character stands for %d nodes)", each), faint}})
	}
	return lines
}

func worst(cells []Cell) Cell {
	found := cells[0]
	for _, cell := range cells[1:] {
		if cell.attention() > found.attention() {
			found = cell
		}
	}
	return found
}

// attention orders cells: a node that is not ready comes right below one that is held.
func (c Cell) attention() int {
	rank := 2 * int(c.Group)
	if c.NotReady {
		rank = max(rank, 2*int(Held)-1)
	}
	return rank
}

// draw shows what the node does by the colour, and by the character too unless the node is not ready.
func (c Cell) draw(g glyphs) span {
	char := g.group[c.Group]
	if c.NotReady {
		char = g.notReady
	}
	return span{string(char), c.Group.tone()}
}

// legend explains the characters that are in use and counts the nodes by verdict.
func legend(m Model, g glyphs) []span {
	var entries []span
	for _, c := range m.Counts {
		group := GroupOf(c.Kind)
		entries = append(entries, span{fmt.Sprintf("%c %s %d", g.group[group], c.Kind, c.Nodes), group.tone()})
	}
	notReady := 0
	for _, cell := range m.Cells {
		if cell.NotReady {
			notReady++
		}
	}
	if notReady > 0 {
		entries = append(entries, span{fmt.Sprintf("%c node not ready %d", g.notReady, notReady), plain})
	}
	if m.Aside > 0 {
		entries = append(entries, span{fmt.Sprintf("(%s not wanted)", plural(m.Aside, "node")), faint})
	}
	return entries
}

// wrap puts entries one after another, as many on a line as fit.
func wrap(entries []span, width int) []line {
	const gap = "  "
	var lines []line
	used := 0
	for _, entry := range entries {
		n := utf8.RuneCountInString(entry.text)
		if len(lines) == 0 || used+len(gap)+n > width {
			lines, used = append(lines, line{entry}), n
			continue
		}
		last := len(lines) - 1
		lines[last] = append(lines[last], span{gap, plain}, entry)
		used += len(gap) + n
	}
	return lines
}

// waitsOf says who waits for what.
func waitsOf(m Model, g glyphs) []line {
	var lines []line
	for i, w := range m.Waits {
		if i == waitLines {
			lines = append(lines, line{{fmt.Sprintf("  and %s more", plural(len(m.Waits)-i, "reason")), faint}})
			break
		}
		cell := Cell{Group: w.Group, NotReady: w.NotReady > 0}
		lines = append(lines, line{cell.draw(g), {" " + w.sentence(waitNames), plain}})
	}
	return lines
}

// clip cuts a line to the width.
func (l line) clip(width int) line {
	for i, s := range l {
		n := utf8.RuneCountInString(s.text)
		if n <= width {
			width -= n
			continue
		}
		cut := append(line(nil), l[:i]...)
		return append(cut, span{string([]rune(s.text)[:width]), s.tone})
	}
	return l
}

// encode writes a line with or without colours; neighbours of one tone share an escape sequence.
func (l line) encode(b *strings.Builder, colour bool) {
	for i := 0; i < len(l); {
		tone := l[i].tone
		escape := tone.escape()
		if colour && escape != "" {
			b.WriteString("\x1b[" + escape + "m")
		}
		for ; i < len(l) && l[i].tone == tone; i++ {
			b.WriteString(printable(l[i].text))
		}
		if colour && escape != "" {
			b.WriteString("\x1b[0m")
		}
	}
}

// printable drops control characters: names and messages come from the cluster and must not steer the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return -1
		}
		return r
	}, text)
}

// kindNames is used by Lines: the verdicts other than "up to date", with their counts.
func kindNames(counts []VerdictCount) []string {
	var names []string
	for _, c := range counts {
		if c.Kind != rollout.UpToDate {
			names = append(names, fmt.Sprintf("%s %d", c.Kind, c.Nodes))
		}
	}
	return names
}
