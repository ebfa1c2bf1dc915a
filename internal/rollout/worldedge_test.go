// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"
)

// harm is what an update does to nodes in a world: the pods of some revisions take their node down when they start (fatal), others
// when they are deleted (deadly).
type harm struct {
	fatal, deadly []int
	// linger is how long a pod needs to go.
	linger time.Duration
	// skew is how far the clock of the nodes is wrong, silent how long a node that was taken down goes on saying that it is not
	// healthy before it says nothing any more: 0 for ever.
	skew, silent time.Duration
	// harmed are the nodes that the update has taken down, mute those of them that say nothing any more.
	harmed, mute []string
}

// event reads a line about nodes that go down or come back; known is whether it is one.
func (w *world) event(what string, words []string) (known bool, err error) {
	switch what {
	case "fatal", "deadly", "linger", "skew", "silent", "cut", "heal":
	default:
		return false, nil
	}
	for _, word := range words {
		switch what {
		case "linger":
			w.linger, err = time.ParseDuration(word)
		case "skew":
			w.skew, err = time.ParseDuration(word)
		case "silent":
			w.silent, err = time.ParseDuration(word)
		case "fatal", "deadly":
			i := slices.IndexFunc(w.State.Revisions, func(r Revision) bool { return r.Name == word })
			if what == "fatal" {
				w.fatal = append(w.fatal, i)
			} else {
				w.deadly = append(w.deadly, i)
			}
		default:
			err = w.turn(word, what == "heal")
		}
	}
	return true, err
}

// turn cuts a node off, or connects it again.
func (w *world) turn(name string, on bool) error {
	i := slices.IndexFunc(w.State.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no node %s", name)
	}
	n := &w.State.Nodes[i]
	w.stuck = slices.DeleteFunc(slices.Clone(w.stuck), func(s string) bool { return s == name })
	if on {
		n.Ready, n.Since = true, w.State.Now
		return nil
	}
	w.stuck = append(w.stuck, name)
	w.down(n, w.State.Now)
	return nil
}

// down makes a node and its pods not ready.
func (w *world) down(n *Node, since Time) {
	n.Ready, n.Since = false, since
	for i := range n.Pods {
		if p := &n.Pods[i]; p.Ready {
			p.Ready, p.ReadySince = false, w.State.Now
		}
	}
}

// suffer lets what runs on a node, or is going, do its harm.
func (w *world) suffer(n *Node) {
	if !n.Ready {
		speaks := slices.Contains(w.harmed, n.Name) && !slices.Contains(w.mute, n.Name)
		if speaks && w.silent > 0 && w.State.Now.Sub(n.Since.Add(-w.skew)) >= w.silent {
			w.mute, n.Since = append(w.mute, n.Name), w.State.Now
		}
		return
	}
	for _, p := range n.Pods {
		starts := !p.Deleting && p.Scheduled && p.Phase == Running && slices.Contains(w.fatal, p.Revision)
		if starts || p.Deleting && slices.Contains(w.deadly, p.Revision) {
			w.harmed = append(w.harmed, n.Name)
			w.down(n, w.State.Now.Add(w.skew))
			return
		}
	}
}
