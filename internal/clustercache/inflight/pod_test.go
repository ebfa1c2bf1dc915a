// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"testing"

	"everynode.dev/everynode/internal/rollout"
)

// step begins a write, or resolves it where there is an outcome.
type step struct {
	w Write
	o Outcome
}

// TestNeverActingTwice: what a Snapshot shows of a pod after the steps of the writes for it.
func TestNeverActingTwice(t *testing.T) {
	for name, c := range map[string]struct {
		steps                        []step
		deleting, doubtful, noResize bool
		deleteBy, editBy             rollout.Time
		next                         string
		nothing                      bool
	}{
		"nothing is under way":                      {nothing: true},
		"a delete has begun":                        {steps: []step{{Write{Verb: Delete, At: 5}, 0}}, deleting: true},
		"a delete for an update has begun":          {steps: []step{{Write{Verb: Delete, Next: "h2"}, 0}}, deleting: true, next: "h2"},
		"a delete took effect":                      {steps: []step{{Write{Verb: Delete}, 0}, {Write{Verb: Delete}, TookEffect}}, deleting: true},
		"a delete was refused":                      {steps: []step{{Write{Verb: Delete, Next: "h2"}, 0}, {Write{Verb: Delete}, NoEffect}}, nothing: true},
		"a delete has no definite answer":           {steps: []step{{Write{Verb: Delete}, 0}, {Write{Verb: Delete, Until: 9}, Unclear}}, deleting: true, deleteBy: 9},
		"a delete that no pass waits for is sent":   {steps: []step{{Write{Verb: Delete}, 0}, {Write{Verb: Delete, Until: 9}, 0}}, deleting: true, deleteBy: 9},
		"a delete took effect after all":            {steps: []step{{Write{Verb: Delete}, 0}, {Write{Verb: Delete, Until: 9}, Unclear}, {Write{Verb: Delete}, TookEffect}}, deleting: true},
		"a delete without an answer took no effect": {steps: []step{{Write{Verb: Delete, Next: "h2"}, 0}, {Write{Verb: Delete, Until: 9}, Unclear}, {Write{Verb: Delete}, NoEffect}}, nothing: true},
		"an edit has no definite answer":            {steps: []step{{Write{Verb: Edit, Until: 9}, Unclear}}, editBy: 9},
		"an edit that takes the pod away has none":  {steps: []step{{Write{Verb: Edit, Until: 9, Takes: true}, Unclear}}, editBy: 9, doubtful: true},
		"an edit that no pass waits for has begun":  {steps: []step{{Write{Verb: Edit, Until: 9, Takes: true}, 0}}, editBy: 9, doubtful: true},
		"the pod has been read after an edit":       {steps: []step{{Write{Verb: Edit, Until: 9, Takes: true}, Unclear}, {Write{Verb: Edit}, TookEffect}}, nothing: true},
		"an edit was refused":                       {steps: []step{{Write{Verb: Edit, Until: 9, Takes: true}, 0}, {Write{Verb: Edit}, NoEffect}}, nothing: true},
		"the resources cannot be changed":           {steps: []step{{Write{Verb: Edit}, NoResize}}, noResize: true},
		"the resources cannot be changed, ever":     {steps: []step{{Write{Verb: Edit}, NoResize}, {Write{Verb: Edit, Until: 9}, Unclear}, {Write{Verb: Edit}, TookEffect}}, noResize: true},
		"an edit says nothing of a delete":          {steps: []step{{Write{Verb: Delete}, 0}, {Write{Verb: Delete, Until: 9}, Unclear}, {Write{Verb: Edit}, TookEffect}}, deleting: true, deleteBy: 9},
		"a delete that was refused says nothing of an edit": {
			steps: []step{{Write{Verb: Edit, Until: 9, Takes: true}, Unclear}, {Write{Verb: Delete}, 0}, {Write{Verb: Delete}, NoEffect}}, editBy: 9, doubtful: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Pod{}
			for _, s := range c.steps {
				if s.o == 0 {
					p.Begin(s.w)
				} else {
					p.Resolve(s.w, s.o)
				}
			}
			var pod rollout.Pod
			p.Over(&pod)
			if pod.Deleting != c.deleting || pod.Doubtful != c.doubtful || pod.NoResize != c.noResize {
				t.Errorf("a Snapshot shows %+v", pod)
			}
			if p.DeleteBy() != c.deleteBy || p.EditBy() != c.editBy || p.Next() != c.next || p.Nothing() != c.nothing {
				t.Errorf("%+v", *p)
			}
		})
	}
}

// TestOverTheCache: what a watch has shown of a deletion is not changed, and a pod of which nothing is under way is as the cache has it.
func TestOverTheCache(t *testing.T) {
	p := &Pod{}
	p.Begin(Write{Verb: Delete, At: 5})
	pod := rollout.Pod{Deleting: true, DeletedAt: 3}
	if p.Over(&pod); pod.DeletedAt != 3 {
		t.Errorf("deleted at %d", pod.DeletedAt)
	}
	pod = rollout.Pod{}
	if p.Over(&pod); pod.DeletedAt != 5 {
		t.Errorf("deleted at %d", pod.DeletedAt)
	}
	p, pod = nil, rollout.Pod{Ready: true, Deleting: true}
	if p.Over(&pod); !pod.Deleting || !pod.Ready || !p.Nothing() || p.Leave() != "" {
		t.Errorf("%+v", pod)
	}
}

// TestAPromiseEndsWithTheNode: it is for the node that the pod leaves.
func TestAPromiseEndsWithTheNode(t *testing.T) {
	p := &Pod{}
	p.Begin(Write{Verb: Delete, Next: "h2"})
	p.Begin(Write{Verb: Delete})
	if p.Leave() != "h2" || p.Next() != "" {
		t.Errorf("%+v", *p)
	}
}
