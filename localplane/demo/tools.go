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
	// interval is how often a condition is looked at, and how long the picture stays at least.
	interval = 50 * time.Millisecond
	// heartbeat is how often the picture is drawn when nothing happens, so that times in it go on.
	heartbeat = time.Second
)

// limit is how long one step may take before the demo gives up; large planes on small machines are slow.
func (s *story) limit() time.Duration {
	return 90*time.Second + time.Duration(s.count)*500*time.Millisecond
}

var errTooLong = errors.New("it took too long")

// poll asks until the answer is yes.
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

// pause waits, or returns why it does not.
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

// await waits until something holds of the count.
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

// whereItStands adds to a time-out what the last picture showed.
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

// subset is whether all names are in the other list; both are sorted.
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

// want tells the witness which image pods have to have from now on.
func (s *story) want(image string) error {
	return s.witness.ask(func(t *tally) { t.image = image })
}

// say writes lines of the story.
func (s *story) say(lines ...string) {
	s.heard(s.view.Say(strings.Join(lines, "\n")))
}

// heard ends the story when nobody can read it any more, for example behind a pipe that was closed.
func (s *story) heard(err error) {
	if err != nil {
		s.stop(err)
	}
}

// draw keeps the picture up to date until ctx ends.
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

// withDarkNodes adds to a failure that nodes were not ready which the demo has not cut off, if there were any: then it may
// say more of the machine than of what was shown on it.
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
	return fmt.Errorf("%w; nodes were not ready although nobody cut them off (%s): this machine may be overloaded, try again when it has less to do",
		err, view.List(names, 4))
}

// picture is the newest model.
func (s *story) picture() view.Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model
}
