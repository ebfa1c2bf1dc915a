// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/rollout"
)

const (
	// interval is the polling interval, and the minimum time between two pictures.
	interval = 50 * time.Millisecond
	// heartbeat is the maximum time between two pictures, so that times in them are updated.
	heartbeat = time.Second
)

// limit returns the timeout of a step; large planes on small machines are slow.
func (s *story) limit() time.Duration {
	return 90*time.Second + time.Duration(s.count)*500*time.Millisecond
}

var errTooLong = errors.New("it took too long")

// poll calls a condition until it is true.
func (s *story) poll(ctx context.Context, limit time.Duration, holds func() (bool, error)) error {
	for end := time.Now().Add(limit); ; {
		yes, err := holds()
		if yes || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w (%s)", errTooLong, view.Duration(limit))
		}
		if err := pause(ctx, interval); err != nil {
			return err
		}
	}
}

// pause waits, or returns an error if ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// await waits until a condition of the tally is true.
func (s *story) await(ctx context.Context, what string, holds func(*tally) bool) error {
	err := s.poll(ctx, s.limit(), func() (yes bool, err error) {
		err = s.witness.ask(func(t *tally) { yes = holds(t) })
		return yes, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w%s", what, err, s.whereItStands(err))
	}
	return nil
}

// whereItStands adds the last picture to a timeout error.
func (s *story) whereItStands(err error) string {
	m := s.picture()
	if !errors.Is(err, errTooLong) || m.Title == "" {
		return ""
	}
	var counts []string
	for _, c := range m.Counts {
		counts = append(counts, fmt.Sprintf("%d %s", c.Nodes, c.Kind))
	}
	text := fmt.Sprintf("; of %d nodes are: %s", len(m.Cells), strings.Join(counts, ", "))
	for _, w := range m.Waits {
		text += fmt.Sprintf("; %s: %s", view.List(w.Nodes, 2), w.Reason)
	}
	return text
}

// everyNodeRuns waits until each of the nodes has an available pod with the image.
func (s *story) everyNodeRuns(ctx context.Context, image string, nodes []string) error {
	what := fmt.Sprintf("%d nodes to run %s", len(nodes), image)
	return s.await(ctx, what, func(t *tally) bool { return subset(nodes, t.running(image)) })
}

// subset reports whether all names are in the other list; both are sorted.
func subset(names, of []string) bool {
	for _, name := range names {
		for len(of) > 0 && of[0] < name {
			of = of[1:]
		}
		if len(of) == 0 || of[0] != name {
			return false
		}
	}
	return true
}

// want sets the image that pods must have from now on.
func (s *story) want(image string) error {
	return s.witness.ask(func(t *tally) { t.image = image })
}

// say writes lines of the demo.
func (s *story) say(lines ...string) {
	s.heard(s.view.Say(strings.Join(lines, "\n")))
}

// heard ends the demo when its output is closed, for example by a pipe.
func (s *story) heard(err error) {
	if err != nil {
		s.stop(err)
	}
}

// draw draws the picture until ctx ends.
func (s *story) draw(ctx context.Context) {
	tracker := view.NewTracker(namespace + "/" + setName)
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for pause(ctx, interval) == nil {
		if snapshot, plan, ok := s.set.Evaluate(rollout.Time(time.Now().UnixNano())); ok {
			model := tracker.Next(snapshot, plan)
			s.remember(model)
			s.heard(s.view.Show(model))
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-s.set.Changed():
		}
	}
}

func (s *story) remember(m view.Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model = m
	for _, cell := range m.Cells {
		if cell.NotReady {
			s.dark[cell.Node] = true
		}
	}
}

// withDarkNodes adds to an error which nodes were not ready although the demo has not cut them off: then the machine
// may be the cause.
func (s *story) withDarkNodes(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.dark {
		if !slices.Contains(s.cut, name) {
			names = append(names, name)
		}
	}
	if err == nil || len(names) == 0 {
		return err
	}
	slices.Sort(names)
	return fmt.Errorf("%w; nodes were not ready although the demo did not cut them off (%s): this machine may be overloaded, try again when it has less to do",
		err, view.List(names, 4))
}

// picture returns the last model.
func (s *story) picture() view.Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model
}
