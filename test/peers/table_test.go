// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"

	"everynode.dev/everynode/internal/rollout"
)

// row is one row of a table, as it was read.
type row struct {
	name string
	// peer is what the other controller does, in words; peerDoes in verdicts.
	peer, peerDoes string
	// does is what Everynode does, because of a reason, if that is not the same.
	does, because string
	// set, annotations and change make the object; see object.
	set, annotations map[string]any
	change           string
	// tellsRevision is whether it matters which revision is created.
	tellsRevision bool
	// labels are those of the nodes and pods, by the name of the node.
	nodes []rollout.Node
	marks map[string]map[string]string
}

// now is the time of all rows.
const now = rollout.Time(1_000_000 * int64(time.Hour))

// readTable reads a table: rows begin with "row", comments with "#".
func readTable(t *testing.T, file string) []*row {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows []*row
	for i, line := range strings.Split(string(text), "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "" || word == "#" {
			continue
		}
		if word == "row" {
			rows = append(rows, &row{name: rest, marks: map[string]map[string]string{}})
		}
		if err := rows[len(rows)-1].read(word, rest); err != nil {
			t.Fatalf("%s:%d: %v", file, i+1, err)
		}
	}
	return rows
}

func (r *row) read(word, rest string) error {
	switch word {
	case "row":
	case "peer":
		r.peer = rest
	case "peer-does":
		r.peerDoes = rest
	case "does":
		r.does = rest
	case "because":
		r.because = rest
	case "change":
		r.change = rest
	case "set":
		return yaml.Unmarshal([]byte(rest), &r.set)
	case "annotations":
		return yaml.Unmarshal([]byte(rest), &r.annotations)
	case "node":
		return r.readNode(strings.Fields(rest))
	default:
		return fmt.Errorf("unknown word %q", word)
	}
	return nil
}

// readNode reads a node: its name, what it is like, and its pods.
func (r *row) readNode(words []string) error {
	n := rollout.Node{Name: words[0], Fit: rollout.MustRun, Ready: true, Since: now.Add(-time.Hour), Last: rollout.NoRevision}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "stay":
			n.Fit = rollout.MayStay
		case "leave":
			n.Fit = rollout.MustLeave
		case "gone":
			n.Fit, n.Gone, n.Ready = rollout.MustLeave, true, false
		case "down":
			n.Ready = false
			n.Since, err = before(value)
		case "last":
			n.Last, r.tellsRevision = revisionOf(value), true
		case "zone", "block":
			r.marks[n.Name] = map[string]string{key: value}
		default:
			var p rollout.Pod
			p, err = readPod(word)
			p.Name = fmt.Sprintf("%s-%d", n.Name, len(n.Pods))
			p.UID = p.Name
			n.Pods = append(n.Pods, p)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", word, err)
		}
	}
	r.nodes = append(r.nodes, n)
	return nil
}

func before(text string) (rollout.Time, error) {
	d, err := time.ParseDuration(text)
	return now.Add(-d), err
}

func revisionOf(word string) int {
	return slices.Index([]string{"old", "new"}, word)
}

// readPod reads a pod such as "old,unready,created=5m".
func readPod(text string) (rollout.Pod, error) {
	p := rollout.Pod{Phase: rollout.Running, Scheduled: true, Ready: true, ReadySince: now.Add(-time.Hour), Created: now.Add(-time.Hour)}
	for i, word := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch {
		case i == 0:
			if p.Revision = revisionOf(word); p.Revision < 0 {
				err = fmt.Errorf("neither old nor new")
			}
		case key == "unready":
			p.Ready = false
		case key == "failed":
			p.Phase, p.Ready = rollout.Failed, false
		case key == "succeeded":
			p.Phase, p.Ready = rollout.Succeeded, false
		case key == "gate":
			p.Gate = true
		case key == "preparing":
			p.Hook = rollout.HookWaiting
		case key == "created":
			p.Created, err = before(value)
		default:
			err = fmt.Errorf("unknown word %q", word)
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}
