// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// Lines writes one line whenever the numbers change, without control characters.
type Lines struct {
	mu  sync.Mutex
	out io.Writer
	// every is the minimum time between two lines, in the time of the models.
	every time.Duration
	// printed is the last written line (without its time), at is its time, and pending is the newest line that is not
	// written yet.
	printed string
	at      rollout.Time
	pending *Model
}

// NewLines returns Lines that write to out at most one line of a model in the time every.
func NewLines(out io.Writer, every time.Duration) *Lines {
	return &Lines{out: out, every: every}
}

// Show implements View.
func (l *Lines) Show(m Model) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if summary(m) == l.printed {
		l.pending = nil
		return nil
	}
	if l.printed != "" && m.Now.Sub(l.at) < l.every {
		l.pending = &m
		return nil
	}
	return l.print(m)
}

// Say implements View. The pending line is written first, so that lines stay in order.
func (l *Lines) Say(text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.flush(); err != nil {
		return err
	}
	for _, part := range strings.Split(text, "\n") {
		if err := l.write(printable(part)); err != nil {
			return err
		}
	}
	return nil
}

// Close implements View.
func (l *Lines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flush()
}

func (l *Lines) flush() error {
	if l.pending == nil {
		return nil
	}
	return l.print(*l.pending)
}

func (l *Lines) print(m Model) error {
	l.printed, l.at, l.pending = summary(m), m.Now, nil
	text := l.printed
	if forecast := m.forecast(); forecast != "" {
		text += ", " + forecast
	}
	if m.Started != 0 {
		text = fmt.Sprintf("%6.1fs  %s", m.elapsed().Seconds(), text)
	}
	return l.write(printable(text))
}

func (l *Lines) write(text string) error {
	if _, err := io.WriteString(l.out, text+"\n"); err != nil {
		return fmt.Errorf("writing a line of progress: %w", err)
	}
	return nil
}

// summary returns the line of a model without the parts that change only with time.
func summary(m Model) string {
	parts := append([]string{m.progress(), BudgetText(m.Budget)}, kindNames(m.Counts)...)
	var away []string
	for _, cell := range m.Cells {
		if cell.NotReady {
			away = append(away, cell.Node)
		}
	}
	if len(away) > 0 {
		parts = append(parts, "not ready: "+List(away, waitNames))
	}
	for _, w := range m.Waits[:min(len(m.Waits), waitLines)] {
		if w.Says != "" {
			parts = append(parts, List(w.Nodes, waitNames)+": "+w.Says)
		}
	}
	if len(m.Policy) > 0 {
		parts = append(parts, m.Policy[0])
	}
	if m.Unheld != "" {
		parts = append(parts, "not held: "+m.Unheld)
	}
	if m.Stopped != "" {
		parts = append(parts, "stopped: "+m.Stopped)
	}
	return fmt.Sprintf("%s revision %s: %s", m.Title, m.Target, strings.Join(parts, ", "))
}
