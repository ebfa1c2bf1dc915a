// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Point is one point of a plot.
type Point struct{ X, Y float64 }

// Series is one entry of the legend. The n-th series looks the same in every panel.
type Series struct {
	Name   string
	Points []Point
}

// Panel is one plot of a figure.
type Panel struct {
	Title  string
	Series []Series
}

// Figure is panels side by side. All have the axes of the figure, with their units in the labels.
type Figure struct {
	X, Y   string
	Panels []Panel
	// Joined connects the points of a series with lines.
	Joined bool
}

const (
	panelWidth   = 13 * vg.Centimeter
	figureHeight = 9 * vg.Centimeter
	margin       = 4 * vg.Millimeter
	fontSize     = 10
)

// SVG draws the figure on its own background, so that it is readable on dark and light pages.
func (f Figure) SVG() ([]byte, error) {
	plots, err := f.plots()
	if err != nil {
		return nil, err
	}
	canvas := vgsvg.New(panelWidth*vg.Length(len(plots)), figureHeight)
	area := draw.New(canvas)
	area.SetColor(color.White)
	area.Fill(area.Rectangle.Path())
	tiles := draw.Tiles{
		Rows: 1, Cols: len(plots), PadX: 2 * margin, PadTop: margin, PadBottom: margin, PadLeft: margin, PadRight: margin,
	}
	for i, part := range plot.Align([][]*plot.Plot{plots}, tiles, area)[0] {
		plots[i].Draw(part)
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return nil, fmt.Errorf("drawing the figure: %w", err)
	}
	return withCommonFonts(svg.Bytes()), nil
}

// withCommonFonts adds fonts with the same widths, for readers who do not have the font.
func withCommonFonts(svg []byte) []byte {
	const drawn = "font-family:Liberation Sans"
	return bytes.ReplaceAll(svg, []byte(drawn+";"), []byte(drawn+",Arial,Helvetica,sans-serif;"))
}

// plots returns the plots of all panels, with one scale.
func (f Figure) plots() ([]*plot.Plot, error) {
	if len(f.Panels) == 0 {
		return nil, errors.New("drawing the figure: it has no panel")
	}
	plots := make([]*plot.Plot, len(f.Panels))
	highest, widest := 0.0, 0.0
	for i, panel := range f.Panels {
		p, err := f.plot(panel)
		if err != nil {
			return nil, fmt.Errorf("drawing the panel %s: %w", panel.Title, err)
		}
		plots[i] = p
		highest, widest = max(highest, p.Y.Max), max(widest, p.X.Max)
	}
	for _, p := range plots {
		// The legend is at the top, and needs room there.
		const roomForLegend = 1.35
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, widest, 0, highest*roomForLegend
	}
	return plots, nil
}

func (f Figure) plot(panel Panel) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = panel.Title, f.X, f.Y
	// On the left of the words, so that the glyphs do not overlap with them in any font.
	p.Legend.Top, p.Legend.Left = true, true
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.Legend.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
	} {
		style.Font = font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, fontSize)
	}
	p.Title.Padding, p.Legend.Padding = margin/2, margin/4
	grid := plotter.NewGrid()
	grid.Vertical.Width, grid.Horizontal.Color = 0, color.Gray{Y: 0xdd}
	p.Add(grid)
	for i, series := range panel.Series {
		xys := make(plotter.XYs, len(series.Points))
		for j, at := range series.Points {
			xys[j] = plotter.XY(at)
		}
		scatter, err := plotter.NewScatter(xys)
		if err != nil {
			return nil, fmt.Errorf("series %s: %w", series.Name, err)
		}
		scatter.GlyphStyle = look(i)
		if f.Joined && len(xys) > 0 {
			line, err := plotter.NewLine(xys)
			if err != nil {
				return nil, fmt.Errorf("series %s: %w", series.Name, err)
			}
			line.Color = scatter.Color
			p.Add(line)
		}
		p.Add(scatter)
		p.Legend.Add(series.Name, scatter)
	}
	return p, nil
}

// look returns the style of the points of a series. Series differ in colour and shape, and the colours are
// distinguishable for colour-blind readers (Okabe and Ito).
func look(series int) draw.GlyphStyle {
	looks := []draw.GlyphStyle{
		{Color: color.RGBA{R: 0xd5, G: 0x5e, A: 0xff}, Shape: draw.CircleGlyph{}, Radius: vg.Points(2.5)},
		{Color: color.RGBA{G: 0x72, B: 0xb2, A: 0xff}, Shape: draw.BoxGlyph{}, Radius: vg.Points(2.2)},
		{Color: color.RGBA{G: 0x9e, B: 0x73, A: 0xff}, Shape: draw.PyramidGlyph{}, Radius: vg.Points(2.8)},
		{Color: color.RGBA{A: 0xff}, Shape: draw.CrossGlyph{}, Radius: vg.Points(2.5)},
		{Color: color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, Shape: draw.RingGlyph{}, Radius: vg.Points(2.8)},
		{Color: color.RGBA{R: 0xe6, G: 0x9f, A: 0xff}, Shape: draw.PlusGlyph{}, Radius: vg.Points(2.8)},
	}
	return looks[series%len(looks)]
}
