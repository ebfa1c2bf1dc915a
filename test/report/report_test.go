// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

func TestSummarize(t *testing.T) {
	times := func(seconds ...int) []time.Duration {
		all := make([]time.Duration, len(seconds))
		for i, s := range seconds {
			all[i] = time.Duration(s) * time.Second
		}
		return all
	}
	of := func(count, least, median, p90, greatest int) Summary {
		s := times(least, median, p90, greatest)
		return Summary{Count: count, Min: s[0], Median: s[1], P90: s[2], Max: s[3]}
	}
	for name, c := range map[string]struct {
		times []time.Duration
		want  Summary
	}{
		"none":     {nil, Summary{}},
		"one":      {times(7), of(1, 7, 7, 7, 7)},
		"two":      {times(9, 3), of(2, 3, 3, 9, 9)},
		"ten":      {times(10, 9, 8, 7, 6, 5, 4, 3, 2, 1), of(10, 1, 5, 9, 10)},
		"eleven":   {times(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), of(11, 1, 6, 10, 11)},
		"repeated": {times(2, 2, 2, 5), of(4, 2, 2, 5, 5)},
	} {
		if got := Summarize(c.times); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	unsorted := times(3, 1, 2)
	Summarize(unsorted)
	if unsorted[0] != 3*time.Second {
		t.Error("the times of the caller were sorted")
	}
}

func TestMarkdown(t *testing.T) {
	table := Table{Head: []string{"name", "a", "b"}, Words: 1, Rows: [][]string{{"x|y", "1", "2"}, {"short"}}}
	const want = "| name | a | b |\n|---|--:|--:|\n| x\\|y | 1 | 2 |\n| short |  |  |\n"
	if got := table.Markdown(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestReplace(t *testing.T) {
	const document = "before\n<!-- x: begin -->\nold\n<!-- x: end -->\nafter\n"
	got, err := Replace([]byte(document), "x", "new\n")
	if err != nil || string(got) != "before\n<!-- x: begin -->\nnew\n<!-- x: end -->\nafter\n" {
		t.Errorf("got %s, %v", got, err)
	}
	for name, refused := range map[string]string{
		"no section":   "before\nafter\n",
		"no end":       "<!-- x: begin -->\n",
		"twice":        document + document,
		"inverted":     "<!-- x: end -->\n<!-- x: begin -->\n",
		"another name": strings.ReplaceAll(document, "x:", "y:"),
	} {
		if got, err := Replace([]byte(refused), "x", "new"); err == nil {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func figure() Figure {
	return Figure{X: "node", Y: "time (s)", Panels: []Panel{
		{Title: "left", Series: []Series{{"slow <&>", []Point{{1, 7}, {2, 8}}}, {"fast", []Point{{1, 2}}}}},
		{Title: "right", Series: []Series{{"none", nil}, {"slower", []Point{{3, 12}}}}},
	}}
}

// TestSVG: the figure is XML with all its words and one glyph for each point and each name of a legend, and is drawn alike again.
func TestSVG(t *testing.T) {
	svg, err := figure().SVG()
	if err != nil {
		t.Fatal(err)
	}
	words, glyphs := map[string]int{}, map[string]int{}
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.CharData:
			words[string(token)]++
		case xml.StartElement:
			for _, a := range token.Attr {
				if a.Name.Local == "style" {
					glyphs[a.Value]++
				}
			}
		}
	}
	for word, count := range map[string]int{"node": 2, "time (s)": 2, "left": 1, "right": 1, "slow <&>": 1, "fast": 1, "none": 1, "slower": 1} {
		if words[word] != count {
			t.Errorf("%q stands there %d times, and %d was to be expected", word, words[word], count)
		}
	}
	if circles, boxes := glyphs["fill:#D55E00"], glyphs["fill:#0072B2"]; circles != 2+2 || boxes != 2+2 {
		t.Errorf("%d glyphs of the first series and %d of the second, and 4 of each were to be expected", circles, boxes)
	}
	if again, err := figure().SVG(); err != nil || !bytes.Equal(svg, again) {
		t.Error("the same figure is drawn differently", err)
	}
}

func TestRefusedFigures(t *testing.T) {
	if _, err := (Figure{}).SVG(); err == nil {
		t.Error("a figure without panels was drawn")
	}
	bad := figure()
	bad.Panels[0].Series[0].Points[0].Y = math.NaN()
	if _, err := bad.SVG(); err == nil {
		t.Error("a point that is no number was drawn")
	}
}
