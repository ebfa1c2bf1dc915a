// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"fmt"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// However many nodes fail, the status of the job can be written, and each node that it names is reported once.
func TestTheStatusOfManyFailures(t *testing.T) {
	const nodes = 3 * MaxFailedNodes
	w := newWorld(t, 1)
	job := w.addJob("j", "agent:2", nodes, nil)
	for round := range 2 {
		d := &decision{in: &Snapshot{Now: w.now, Job: job}, drafts: map[string]*draft{}, name: "agent", tag: "2", desired: nodes}
		for i := range nodes {
			image := &v1beta1.NodeImage{}
			image.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"agent": {Tags: []v1beta1.ImageTagStatus{{Tag: "2", Phase: v1beta1.ImagePhaseFailed}}}}
			d.failed = append(d.failed, &Node{Name: fmt.Sprintf("node-%05d", i), Image: image})
		}
		p := Plan{}
		d.report(&p, w.now)
		if len(p.Status.FailedNodes) != MaxFailedNodes || p.Status.Failed != nodes {
			t.Errorf("it names %d of %d failed nodes", len(p.Status.FailedNodes), p.Status.Failed)
		}
		if want := []int{MaxFailedNodes, 0}[round]; len(p.Events) != want {
			t.Errorf("round %d: %d events, want %d", round, len(p.Events), want)
		}
		job.Status = p.Status
	}
}

// A node may say of versions what it likes: what it is told next is still something that may be written.
func TestVersionsThatANodeMakesUp(t *testing.T) {
	for _, version := range []int64{math.MaxInt64, math.MaxInt64 - 1, -7, math.MinInt64} {
		w := newWorld(t, 1)
		job := w.addJob("j", "agent:2", 1, nil)
		w.nodes[0].Image.Status.ImageStatuses = map[string]v1beta1.ImageStatus{
			"agent": {Tags: []v1beta1.ImageTagStatus{{Tag: "2", Version: version, Phase: v1beta1.ImagePhaseFailed}}},
		}
		p := Decide(Snapshot{Now: w.now, Job: job, Nodes: w.nodes})
		if len(p.Edits) != 1 || p.Edits[0].Images["agent"].Tags[0].Version < 0 {
			t.Errorf("%d: %+v", version, p.Edits)
		}
	}
}

// The clock of a node, or what it makes of it, neither keeps its place in a job for ever nor has a pull given up that has just begun.
func TestTimesThatANodeMakesUp(t *testing.T) {
	for _, phase := range []v1beta1.ImagePullPhase{v1beta1.ImagePhasePulling, v1beta1.ImagePhaseWaiting} {
		for _, c := range []struct {
			starts, after time.Duration
			gone          bool
		}{
			{1000 * 24 * time.Hour, 5 * time.Second, false},
			{1000 * 24 * time.Hour, 25 * time.Hour, true},
			{25 * time.Hour, 25 * time.Hour, true}, // again and again
			{-2 * time.Hour, 5 * time.Second, false},
			{-2 * time.Hour, 25 * time.Hour, true},
		} {
			w := newWorld(t, 1)
			job := w.addJob("j", "agent:2", 1, nil)
			w.decide(job, nil)
			image := w.nodes[0].Image
			began := metav1.NewTime(w.now.Add(c.starts))
			image.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"agent": {Tags: []v1beta1.ImageTagStatus{
				{Tag: "2", Version: image.Spec.Images["agent"].Tags[0].Version, Phase: phase, StartTime: &began},
			}}}
			s := Sweep{Now: w.now.Add(c.after), Image: image, Ready: true, Since: w.now.Add(-time.Hour), Owner: w.ownerState}
			if out := s.Run(); (out.Status != nil) != c.gone {
				t.Errorf("%s since %v is given up after %v: %v, want %v", phase, c.starts, c.after, out.Status != nil, c.gone)
			}
		}
	}
}

// A pull of a job that never ends has the time that was given for one try.
func TestThePullOfAJobThatStays(t *testing.T) {
	w := newWorld(t, 1)
	job := w.addJob("j", "agent:2", 1, nil)
	job.Spec.CompletionPolicy = v1beta1.CompletionPolicy{Type: v1beta1.CompletionNever}
	job.Spec.PullPolicy = &v1beta1.PullPolicy{TimeoutSeconds: new(int32(3600))}
	p := Decide(Snapshot{Now: w.now, Job: job, Nodes: w.nodes})
	if got := *p.Edits[0].Images["agent"].Tags[0].PullPolicy.ActiveDeadlineSeconds; got != 3600 {
		t.Errorf("it ends after %d seconds", got)
	}
}

// An order that a manager with a fast clock has dated begins when it is seen: its deadlines count from then.
func TestAnOrderDatedByAFastClockIsRedated(t *testing.T) {
	w := newWorld(t, 1)
	job := w.addJob("j", "agent:2", 1, nil)
	w.now = w.now.Add(24 * time.Hour)
	w.decide(job, nil)
	w.now = w.now.Add(-24 * time.Hour)
	version := w.nodes[0].Image.Spec.Images["agent"].Tags[0].Version
	w.sweep(&w.nodes[0])
	tag := w.nodes[0].Image.Spec.Images["agent"].Tags[0]
	if !tag.CreatedAt.Time.Equal(w.now) || tag.Version != version {
		t.Errorf("ordered at %v and now it is %v; version %d was %d", tag.CreatedAt, w.now, tag.Version, version)
	}
	if again := w.sweep(&w.nodes[0]); again.Edit != nil {
		t.Errorf("corrected twice: %+v", again.Edit)
	}
	w.now = w.now.Add(patience + time.Second)
	if out := w.sweep(&w.nodes[0]); out.Status == nil {
		t.Error("a node that says nothing is not given up")
	}
}
