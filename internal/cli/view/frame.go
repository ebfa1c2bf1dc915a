// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"everynode.dev/everynode/internal/rollout"
)

// Size is the size of a terminal in characters.
type Size struct{ Width, Height int }

const (
	// The size that is used if a terminal reports no size, or an implausible one.
	usualWidth, usualHeight = 80, 24
	// The minimum size that is used; on a smaller terminal, lines are clipped.
	leastWidth, leastHeight = 20, 8
	// leastCellRows is the minimum number of lines for the cells: one row and the legend.
	leastCellRows = 2
	// The bar takes a quarter of the line, within these limits, or half of that if there is room for all numbers then:
	// they are more useful.
	barWidth, leastBarWidth = 20, 5
	// waitLines and waitNames limit how many reasons, and how many nodes of each, are shown; the rest is counted.
	waitLines, waitNames = 4, 4
	// saysLines is the number of lines for the message of a pod on a narrow screen; the cause is at the end of the
	// message.
	saysLines = 3
)

// normal returns s with usable sizes.
func (s Size) normal() Size {
	if s.Width <= 0 {
		s.Width = usualWidth
	}
	if s.Height <= 0 {
		s.Height = usualHeight
	}
	return Size{Width: max(s.Width, leastWidth), Height: max(s.Height, leastHeight)}
}

// span is text of one colour, line is one line of a frame.
type (
	span struct {
		text string
		tone tone
	}
	line []span
)

// frame lays out a model for a terminal of that size: no line is longer than the width, and there are fewer lines than
// the height, so that the next frame can be drawn over this one.
func frame(m Model, size Size, g glyphs) []line {
	size = size.normal()
	return layout(m, size, g, size.Width)
}

// layout is frame with lines that may be longer than the width, up to longest.
func layout(m Model, size Size, g glyphs, longest int) []line {
	lines := []line{fit(header(m), longest, g.more), fit(progressLine(m, g, longest), longest, g.more)}
	var tail []line
	if over := overBudget(m.Budget); over != "" {
		tail = append(tail, line{{over, plain}})
	}
	for _, text := range m.Policy {
		tail = append(tail, line{{printable(text), plain}})
	}
	if m.Unheld != "" {
		tail = append(tail, line{{"not held: " + printable(m.Unheld), plain}})
	}
	if m.Stopped != "" && !slices.Contains(m.Policy, "next: "+m.Stopped) {
		tail = append(tail, line{{"stopped: " + printable(m.Stopped), plain}})
	}
	tail = slices.Concat(tail, wrap(legend(m, g), size.Width), waitsOf(m, g, longest))
	room := size.Height - 1 - len(lines)
	tail = atMost(tail, room-leastCellRows, g.more)
	lines = append(lines, cellRows(m.Cells, size.Width, room-len(tail), g)...)
	lines = append(lines, tail...)
	for i := range lines {
		lines[i] = lines[i].clip(longest, g.more)
	}
	return lines
}

// atMost limits the number of lines; the last line then has the number of omitted lines.
func atMost(lines []line, most int, more string) []line {
	if len(lines) <= most {
		return lines
	}
	hidden := len(lines) - most + 1
	return append(lines[:most-1], line{{fmt.Sprintf("%s %d more lines", more, hidden), faint}})
}

// header has the name of the set, the revision that it is updated to, the estimated remaining time, the elapsed time,
// and the other revisions that have pods. If there is not enough room, its last parts are omitted.
func header(m Model) []line {
	pieces := []line{{{m.Title, strong}, {" to revision ", plain}, {m.Target, strong}}}
	if forecast := m.forecast(); forecast != "" {
		pieces = append(pieces, line{{", " + forecast, plain}})
	}
	if m.Started != 0 {
		pieces = append(pieces, line{{"  after " + Duration(m.elapsed()), plain}})
	}
	var others []string
	for _, r := range m.Revisions {
		if r.Name != m.Target {
			others = append(others, fmt.Sprintf("%d of %s", r.Pods, r.Name))
		}
	}
	if len(others) > 0 {
		pieces = append(pieces, line{{"  (pods left: " + strings.Join(others, ", ") + ")", faint}})
	}
	return pieces
}

// progressLine has the bar and the numbers, in parts like the header.
func progressLine(m Model, g glyphs, longest int) []line {
	numbers := []line{{{"  " + m.updated(), plain}}}
	budget, users := ", "+budgetUsed(m.Budget), budgetUsers(m.Budget, onNotReady)
	if m.Budget.Exceeded() { // it has a line of its own
		budget, users = "", ""
	}
	for _, text := range []string{", " + m.available(), m.batch(), budget, users} {
		numbers = append(numbers, line{{text, plain}})
	}
	cells := clamp(longest/4, leastBarWidth, barWidth)
	if width := slices.Concat(numbers...).width(); cells+width > longest && cells/2+width <= longest {
		cells /= 2
	}
	numbers[0] = append(bar(m, cells, g), numbers[0]...)
	return numbers
}

// fit joins as many parts as fit into the width, followed by a mark if some are omitted.
func fit(pieces []line, width int, more string) line {
	whole := slices.Concat(pieces...)
	if whole.width() <= width {
		return whole
	}
	for n := len(pieces) - 1; n > 0; n-- {
		if part := append(slices.Concat(pieces[:n]...), span{" " + more, faint}); part.width() <= width {
			return part
		}
	}
	return whole.clip(width, more)
}

// bar draws the shares of nodes that are updated and available, updated but not available, and not updated.
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

// cellRows draws one character per node. If the nodes do not fit into the rows (at least two), each character represents
// several nodes and shows the one with the highest attention.
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
		lines = append(lines, line{{fmt.Sprintf("(each character represents %d nodes)", each), faint}})
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

// attention orders cells by urgency: a node that is not ready comes right after one that is held.
func (c Cell) attention() int {
	rank := 2 * int(c.Group)
	if c.NotReady {
		rank = max(rank, 2*int(rollout.GroupHeld)-1)
	}
	return rank
}

// draw shows the state of the node by the colour, and by the character too, except for a node that is not ready.
func (c Cell) draw(g glyphs) span {
	char := g.group[c.Group]
	if c.NotReady {
		char = g.notReady
	}
	return span{string(char), tone(c.Group.Tone())}
}

// legend explains the characters in use and counts the nodes that are drawn with them by verdict. Each node is counted
// once.
func legend(m Model, g glyphs) []span {
	var entries []span
	drawn := slices.DeleteFunc(slices.Clone(m.Cells), func(c Cell) bool { return c.NotReady })
	for _, c := range countVerdicts(drawn) {
		group := c.Kind.Group()
		entries = append(entries, span{fmt.Sprintf("%c %s %d", g.group[group], c.Kind, c.Nodes), tone(group.Tone())})
	}
	notReady := len(m.Cells) - len(drawn)
	if notReady > 0 {
		entries = append(entries, span{fmt.Sprintf("%c node not ready %d", g.notReady, notReady), plain})
	}
	if m.Aside > 0 {
		entries = append(entries, span{fmt.Sprintf("(%s not wanted)", Plural(m.Aside, "node")), faint})
	}
	return entries
}

// wrap puts as many entries on a line as fit.
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

// waitsOf returns the lines with the nodes that wait, and the reasons.
func waitsOf(m Model, g glyphs, longest int) []line {
	var lines []line
	for i, w := range m.Waits {
		if i == waitLines {
			lines = append(lines, line{{fmt.Sprintf("  and %s more", Plural(len(m.Waits)-i, "reason")), faint}})
			break
		}
		cell := Cell{Group: w.Group, NotReady: w.NotReady > 0}
		text, rest := w.split(longest - 2)
		lines = append(lines, line{cell.draw(g), {" ", plain}, {text, plain}})
		for _, part := range rest {
			lines = append(lines, line{{"  ", plain}, {part, plain}})
		}
	}
	return lines
}

// split puts the message of the pods on lines of its own if the sentence has no room for it, because users need this
// message most.
func (w Wait) split(room int) (text string, rest []string) {
	text = w.within(room)
	if w.Says == "" || utf8.RuneCountInString(text) <= room {
		return text, nil
	}
	says := w.Says
	w.Says = ""
	return w.within(room), fold(says, room, saysLines)
}

// fold wraps a text into at most that number of lines; the last line may be longer than the room.
func fold(text string, room, most int) []string {
	var lines []string
	for len(lines) < most-1 && utf8.RuneCountInString(text) > room {
		begun := wholeWords([]rune(text), room)
		lines, text = append(lines, begun), strings.TrimLeft(text[len(begun):], " ")
	}
	return append(lines, text)
}

// within returns the sentence with as many node names as leave room for the reason, or the shortest sentence if none
// fits.
func (w Wait) within(room int) string {
	best := w.sentence(waitNames)
	for names := waitNames - 1; names > 0 && utf8.RuneCountInString(best) > room; names-- {
		if text := w.sentence(names); utf8.RuneCountInString(text) < utf8.RuneCountInString(best) {
			best = text
		}
	}
	return best
}

// width returns the number of characters of a line.
func (l line) width() int {
	n := 0
	for _, s := range l {
		n += utf8.RuneCountInString(s.text)
	}
	return n
}

// clip shortens a line that is longer than the width at the end of a word, followed by a mark. A truncated number would
// be a wrong number.
func (l line) clip(width int, more string) line {
	if l.width() <= width {
		return l
	}
	room := max(width-utf8.RuneCountInString(more), 0)
	var kept line
	for _, s := range l {
		if n := utf8.RuneCountInString(s.text); n <= room {
			kept, room = append(kept, s), room-n
			continue
		}
		kept = append(kept, span{wholeWords([]rune(s.text), room), s.tone})
		break
	}
	return append(kept, span{more, faint})
}

// wholeWords returns the beginning of a text that is longer than the room, up to the end of the last word that fits, or
// a part of the first word if it does not fit.
func wholeWords(text []rune, room int) string {
	end := room
	for end > 0 && text[end] != ' ' {
		end--
	}
	if end == 0 && text[0] != ' ' {
		end = room
	}
	return strings.TrimRight(string(text[:end]), " ")
}

// encode writes a line with or without colours; adjacent spans of one colour share an escape sequence.
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

// printable removes control characters: names and messages come from the cluster and must not control the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return -1
		}
		return r
	}, text)
}

// kindNames returns the verdicts other than "up to date" with their counts, for Lines.
func kindNames(counts []VerdictCount) []string {
	var names []string
	for _, c := range counts {
		if c.Kind != rollout.UpToDate {
			names = append(names, fmt.Sprintf("%s %d", c.Kind, c.Nodes))
		}
	}
	return names
}
