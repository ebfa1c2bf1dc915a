// SPDX-License-Identifier: Apache-2.0

package rollout

// Refusal is the answer of the API server to the last write for a node, when it was a definite no, because a policy, a quota or a webhook
// rejected it, or left open whether the write took effect.
type Refusal struct {
	// Message is the message of the API server.
	Message string
	// Denied reports whether the API server, a policy, a quota or a webhook has said no to the object itself. It is false when a webhook could not be called, and when the answer is not clear.
	Denied bool
	// Quota reports whether it is a quota that is used up which denies the pod.
	Quota bool
	// RetryAt is when the write may be tried again; 0 means at once.
	RetryAt Time
	// Of is which write it was: 0 if that does not matter, Patch for a change in place, Delete for a delete, and Unmark or Restore after that has been taken back.
	Of ActionKind
}

// Shortened is a text of at most that many characters, and dots.
func Shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most]) + "..."
	}
	return text
}

// Obstacle describes what blocks the next write for the node; empty if nothing does.
func (n *Node) Obstacle() string {
	switch {
	case n.Refusal == nil:
		return n.Blocked
	case n.Blocked == "":
		return n.Refusal.Message
	case n.Unanswered:
		return n.Blocked + ": " + n.Refusal.Message
	default:
		return n.Blocked
	}
}

// turn is when in a plan a node has its turn.
type turn uint8

const (
	atOnce turn = iota // no write for the node was refused
	last               // one was, and it is time to try again: after all other nodes
	barred             // one was a short time ago: nothing is done on the node
)

func (d *decision) turnOf(n *Node) turn {
	switch {
	case n.Refusal == nil:
		return atOnce
	case n.Refusal.RetryAt > d.in.Now:
		return barred
	default:
		return last
	}
}

// mayStart reports whether the current round of updates may start on the node.
func (d *decision) mayStart(i int) bool { return d.turnOf(&d.in.Nodes[i]) == d.round }

// blockRefused gives the nodes on which a write was refused, and on which the plan does nothing although there is something to do, their
// verdict.
func (d *decision) blockRefused() {
	if !d.refusals {
		return
	}
	for i := range d.in.Nodes {
		n, v := &d.in.Nodes[i], &d.verdicts[i]
		if n.Refusal == nil {
			continue
		}
		switch v.Kind {
		case WaitNodeOwner:
			if !d.staleOn(i) {
				continue // the announcement has been made, so there is nothing to write
			}
			v.Kind, v.Detail = Blocked, NoDetail
		case WaitBudget:
			if d.limit().Limit == 0 {
				continue // nothing is written without a budget, whatever was refused before
			}
			v.Kind, v.Detail = Blocked, NoDetail
		case WaitBurst, WaitBackoff, WaitReplacing, WaitSurgeRemove:
			v.Kind, v.Detail = Blocked, NoDetail
		}
		if v.Kind == Blocked && n.Refusal.RetryAt > d.in.Now {
			d.wakeAt(n.Refusal.RetryAt)
		}
	}
}
