// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

const at = rollout.Time(1000)

func isOpen(Block) bool  { return true }
func isEnded(Block) bool { return false }

// TestOverANode: what a Snapshot at 1000 shows of node 1, and when it is to be looked at again.
func TestOverANode(t *testing.T) {
	again := at.Add(AskAgain)
	create := Write{Verb: Create, Node: "n1", Pod: "p", Until: 9}
	claim := Write{Verb: Claim, Node: "n1", UID: "u"}
	for name, c := range map[string]struct {
		do         func(s *Set)
		open       func(Block) bool
		blocked    string
		unanswered bool
		look       rollout.Time
	}{
		"nothing is under way":                      {func(*Set) {}, isOpen, "", false, 0},
		"another node is blocked":                   {func(s *Set) { s.Block(2, Block{Reason: "no", Until: 2000}) }, isOpen, "", false, 0},
		"a create has begun":                        {func(s *Set) { s.Begin(1, Write{Verb: Create, Pod: "p", Slow: true}) }, isOpen, "the API server has not answered the create of pod p yet", true, again},
		"a create has no definite answer":           {func(s *Set) { s.Begin(1, create); s.Resolve(1, create, Unclear) }, isOpen, "it is not clear whether the create of pod p took effect", true, again},
		"a create took effect":                      {func(s *Set) { s.Begin(1, create); s.Resolve(1, create, TookEffect) }, isOpen, "", false, 0},
		"a create was refused":                      {func(s *Set) { s.Begin(1, create); s.Resolve(1, create, NoEffect) }, isOpen, "", false, 0},
		"a create outlives its node":                {func(s *Set) { s.Begin(7, create); s.Forget(7); s.Renumber(7, 1) }, isOpen, "it is not clear whether the create of pod p took effect", true, again},
		"the name is taken":                         {func(s *Set) { s.Block(1, Block{Reason: "taken", From: 900, Until: 2000}) }, isOpen, "taken", false, 2000},
		"the name was taken":                        {func(s *Set) { s.Block(1, Block{Reason: "taken", From: 900, Until: 1000}) }, isOpen, "", false, 0},
		"the clock was set back":                    {func(s *Set) { s.Block(1, Block{Reason: "taken", From: 1100, Until: 2000}) }, isOpen, "taken", false, again},
		"the set has changed":                       {func(s *Set) { s.Block(1, Block{Reason: "taken", Until: 2000}); s.Changed() }, isOpen, "", false, 0},
		"a pod is not adopted":                      {func(s *Set) { s.Block(1, Block{Reason: "no", Pod: "u", Until: 2000}) }, isOpen, "no", false, 2000},
		"a pod is not adopted, also after a change": {func(s *Set) { s.Block(1, Block{Reason: "no", Pod: "u", Until: 2000}); s.Changed() }, isOpen, "no", false, 2000},
		"a pod is to be adopted now":                {func(s *Set) { s.Block(1, Block{Reason: "no", Pod: "u", Until: 1000}) }, isOpen, "no", false, again},
		"a pod need not be adopted any more":        {func(s *Set) { s.Block(1, Block{Reason: "no", Pod: "u", Until: 2000}) }, isEnded, "", false, 0},
		"a pod has been adopted":                    {func(s *Set) { s.Block(1, Block{Reason: "no", Pod: "u", Until: 2000}); s.Resolve(1, claim, TookEffect) }, isOpen, "", false, 0},
		"one of two pods has been adopted": {func(s *Set) {
			s.Block(1, Block{Reason: "unclear", Pod: "x", Until: 2000})
			s.Block(1, Block{Reason: "no", Pod: "u", Until: 1500})
			s.Resolve(1, claim, TookEffect)
		}, isOpen, "unclear", false, 2000},
		"two pods are not adopted": {func(s *Set) {
			s.Block(1, Block{Reason: "unclear", Pod: "x", Until: 2000})
			s.Block(1, Block{Reason: "no", Pod: "u", Until: 1500})
		}, isOpen, "unclear", false, 1500},
		"a pod is not adopted, and its node comes back": {func(s *Set) {
			s.Block(7, Block{Reason: "no", Pod: "u", Until: 2000})
			s.Block(7, Block{Reason: "taken", Until: 1500})
			s.Leave(7)
			s.Renumber(7, 1)
		}, isOpen, "no", false, 2000},
		"another pod has been adopted": {func(s *Set) { s.Block(1, Block{Reason: "no", Pod: "x", Until: 2000}); s.Resolve(1, claim, TookEffect) }, isOpen, "no", false, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			s, n := NewSet(), rollout.Node{}
			c.do(s)
			if look := s.Over(1, &n, at, c.open); n.Blocked != c.blocked || n.Unanswered != c.unanswered || look != c.look {
				t.Errorf("blocked %q, unanswered %t, to be looked at again at %d", n.Blocked, n.Unanswered, look)
			}
		})
	}
}

// TestABlockOfAFastClockEnds: it holds for one more pass.
func TestABlockOfAFastClockEnds(t *testing.T) {
	s := NewSet()
	s.Block(1, Block{Reason: "taken", From: 1100, Until: 2000})
	var first, second rollout.Node
	s.Over(1, &first, at, isOpen)
	s.Over(1, &second, at, isOpen)
	if first.Blocked != "taken" || second.Blocked != "" || !s.Nothing() {
		t.Errorf("blocked %q, then %q", first.Blocked, second.Blocked)
	}
}

// TestRefusals: what a Snapshot shows of a node for which a write was refused.
func TestRefusals(t *testing.T) {
	before := Content{Labels: map[string]string{"revision": "h1"}}
	after := Content{Labels: map[string]string{"revision": "h2"}}
	for name, c := range map[string]struct {
		do   func(s *Set)
		want string
		of   rollout.ActionKind
	}{
		"refused":                      {func(*Set) {}, "policy", rollout.Delete},
		"accepted":                     {func(s *Set) { s.Accept(1, 0) }, "", 0},
		"taken back":                   {func(s *Set) { s.Accept(1, rollout.Restore) }, "policy", rollout.Restore},
		"its pod has gone":             {func(s *Set) { s.Outlive(1, "u") }, "", 0},
		"another pod has gone":         {func(s *Set) { s.Outlive(1, "x") }, "policy", rollout.Delete},
		"the set has changed":          {func(s *Set) { s.Changed() }, "", 0},
		"the node has gone":            {func(s *Set) { s.Forget(1) }, "", 0},
		"its pod has been read":        {func(s *Set) { s.Edited(1, "u", after) }, "policy", rollout.Delete},
		"it was open, and took effect": {func(s *Set) { s.Refuse(1, Refusal{Pod: "u", Before: &before}); s.Edited(1, "u", after) }, "", 0},
		"it was open, and took no effect": {func(s *Set) {
			s.Refuse(1, Refusal{Pod: "u", Before: &before, Message: "open"})
			s.Edited(1, "u", before)
		}, "open", 0},
		"it was open, and another pod was read": {func(s *Set) {
			s.Refuse(1, Refusal{Pod: "u", Before: &before, Message: "open"})
			s.Edited(1, "x", after)
		}, "open", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, n := NewSet(), rollout.Node{}
			if retry := s.Refuse(1, Refusal{Pod: "u", Message: "policy", Of: rollout.Delete, At: 1000}); retry != at.Add(time.Second) {
				t.Errorf("to be tried again at %d", retry)
			}
			c.do(s)
			if s.Over(1, &n, at, isOpen); n.Obstacle() != c.want || n.Refusal != nil && n.Refusal.Of != c.of {
				t.Errorf("the node shows %+v", n.Refusal)
			}
		})
	}
}
