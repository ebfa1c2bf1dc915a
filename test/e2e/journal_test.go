// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"everynode.dev/everynode/localplane/testapp"
)

// journal is what has run in a node for the test so far.
func (s *stage) journal(node string) []testapp.Event {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.Cluster.Plane.NodeDir(node), directory(s.Name), "journal"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	events, err := testapp.ReadJournal(raw)
	if err != nil {
		s.t.Fatalf("node %s: %v", node, err)
	}
	return events
}

// ran fails unless on each node that container ran in these versions, in that order, each once, and none beside another.
func (s *stage) ran(container string, versions ...string) {
	s.t.Helper()
	for _, node := range s.Nodes {
		s.ranOn(node, container, versions...)
	}
}

func (s *stage) ranOn(node, container string, versions ...string) {
	s.t.Helper()
	want := history{container: container, versions: versions, pods: len(versions)}
	if s.kind.inPlace {
		want.pods = 1
	}
	s.judge(node, want)
}

// judge fails unless the journal of a node shows that history.
func (s *stage) judge(node string, want history) {
	s.t.Helper()
	events := s.journal(node)
	if err := want.judge(events); err != nil {
		s.t.Errorf("the journal of node %s: %v:\n%s", node, err, list(events))
	}
}

func list(events []testapp.Event) string {
	var text strings.Builder
	for _, e := range events {
		fmt.Fprintf(&text, "  %s %s %s %s in pod %s\n", e.Time.Format("15:04:05.000"), e.Event, e.Container, e.Version, e.Name)
	}
	return text.String()
}

// history is what a journal has to show of a container.
type history struct {
	container string
	// versions are those that were started, each once and in that order.
	versions []string
	// pods is in how many pods they ran.
	pods int
}

func (h history) judge(events []testapp.Event) error {
	if err := overlaps(events); err != nil {
		return err
	}
	var started []string
	pods := map[string]bool{}
	for _, e := range events {
		switch {
		case e.Container != h.container:
		case e.Event == testapp.Started:
			started = append(started, e.Version)
			pods[e.Pod] = true
		}
	}
	if strings.Join(started, " ") != strings.Join(h.versions, " ") {
		return fmt.Errorf("%s was started as %v, want %v", h.container, started, h.versions)
	}
	if len(pods) != h.pods {
		return fmt.Errorf("%s ran in %d pods, want %d", h.container, len(pods), h.pods)
	}
	return nil
}

// overlaps tells which run was started beside another of its container.
func overlaps(events []testapp.Event) error {
	for _, e := range events {
		if e.Event == testapp.Overlapped {
			return fmt.Errorf("%s %s was started while another ran", e.Container, e.Version)
		}
	}
	return nil
}

// TestHistory: what a journal is refused for.
func TestHistory(t *testing.T) {
	journal := func(lines ...string) []testapp.Event {
		var events []testapp.Event
		for _, line := range lines {
			var e testapp.Event
			if _, err := fmt.Sscan(line, &e.Event, &e.Container, &e.Version, &e.Pod); err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		return events
	}
	recreated := journal("start app v1 a", "start side v1 a", "stop app v1 a", "start app v2 b")
	changed := journal("start app v1 a", "stop app v1 a", "start app v2 a")
	for name, c := range map[string]struct {
		history history
		events  []testapp.Event
		refused bool
	}{
		"recreated":           {history{"app", []string{"v1", "v2"}, 2}, recreated, false},
		"the other container": {history{"side", []string{"v1"}, 1}, recreated, false},
		"changed in place":    {history{"app", []string{"v1", "v2"}, 1}, changed, false},
		"not in place":        {history{"app", []string{"v1", "v2"}, 1}, recreated, true},
		"not recreated":       {history{"app", []string{"v1", "v2"}, 2}, changed, true},
		"one is missing":      {history{"app", []string{"v1", "v2", "v3"}, 3}, recreated, true},
		"another order":       {history{"app", []string{"v2", "v1"}, 2}, recreated, true},
		"started twice":       {history{"app", []string{"v1", "v2"}, 2}, append(recreated, journal("start app v2 b")...), true},
		"side by side":        {history{"app", []string{"v1", "v2"}, 2}, append(recreated, journal("overlap app v2 b")...), true},
		"nothing ran":         {history{"app", []string{"v1"}, 1}, nil, true},
	} {
		if err := c.history.judge(c.events); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
