// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// begun are the nodes that the plan begins or changes.
func begun(p *Plan) string {
	var names []string
	for _, e := range p.Edits {
		names = append(names, e.Node)
	}
	return strings.Join(names, " ")
}

// finish lets the agents of all nodes do what they are asked for.
func (w *world) finish(ok bool) {
	for range 2 {
		for i := range w.nodes {
			w.work(&w.nodes[i], ok)
		}
	}
}

func TestWhoBegins(t *testing.T) {
	all := func(*v1beta1.ImagePullJobSpec) {}
	for name, e := range map[string]struct {
		change func(*v1beta1.ImagePullJobSpec)
		more   func(*Snapshot)
		want   string
		total  int32
	}{
		"as many as allowed": {all, nil, "n000 n001", 4},
		"none at 0":          {func(s *v1beta1.ImagePullJobSpec) { s.Parallelism = &intstr.IntOrString{} }, nil, "", 4},
		"one without a word": {func(s *v1beta1.ImagePullJobSpec) { s.Parallelism = nil }, nil, "n000", 4},
		"by name": {func(s *v1beta1.ImagePullJobSpec) {
			s.Selector = &v1beta1.ImagePullJobNodeSelector{Names: []string{"n003", "gone"}}
		}, nil, "n003", 1},
		"by label": {func(s *v1beta1.ImagePullJobSpec) {
			s.Selector = &v1beta1.ImagePullJobNodeSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"zone": "1"}}}
		}, nil, "n001 n003", 2},
		"by pod":                  {func(s *v1beta1.ImagePullJobSpec) { s.PodSelector = &v1beta1.ImagePullJobPodSelector{} }, func(s *Snapshot) { s.PodNodes = map[string]bool{"n002": true} }, "n002", 1},
		"in order":                {all, func(s *Snapshot) { s.Order = []string{"n003", "gone", "n002"} }, "n002 n003", 4},
		"order then name":         {all, func(s *Snapshot) { s.Order = []string{"n003"} }, "n000 n003", 4},
		"on hold":                 {all, func(s *Snapshot) { s.Hold = "reason" }, "", 4},
		"ready first":             {all, func(s *Snapshot) { s.Nodes[0].Ready = false; s.Order = []string{"n000"} }, "n001 n002", 4},
		"unready at last":         {func(s *v1beta1.ImagePullJobSpec) { s.Parallelism = &intstr.IntOrString{IntVal: 9} }, func(s *Snapshot) { s.Nodes[0].Ready = false }, "n000 n001 n002 n003", 4},
		"not without a NodeImage": {all, func(s *Snapshot) { s.Nodes[0].Image = nil }, "n001 n002", 4},
		"unreadable image":        {func(s *v1beta1.ImagePullJobSpec) { s.Image = "A" }, nil, "", 0},
		"unreadable selector": {func(s *v1beta1.ImagePullJobSpec) {
			s.Selector = &v1beta1.ImagePullJobNodeSelector{LabelSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}}
		}, nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4)
			job := w.addJob("job", "agent:2", 2, e.change)
			s := Snapshot{Now: w.now, Job: job, Nodes: w.nodes}
			if e.more != nil {
				e.more(&s)
			}
			plan := Decide(s)
			if got := begun(&plan); got != e.want || plan.Status.Desired != e.total || e.total > 0 && int(plan.Status.Active) != len(plan.Edits) {
				t.Errorf("begins %q with %+v, want %q of %d", got, plan.Status, e.want, e.total)
			}
		})
	}
}

func TestAJobFromBeginningToEnd(t *testing.T) {
	w := newWorld(t, 3)
	job := w.addJob("job", "registry.local:5000/agent:2", 2, func(s *v1beta1.ImagePullJobSpec) {
		s.CompletionPolicy.TTLSecondsAfterFinished = new(int32(60))
	})
	w.decide(job, nil)
	if s := job.Status; s.Message != "job is running, progress 0.0%" || s.Active != 2 || !s.StartTime.Time.Equal(w.now) {
		t.Errorf("got %+v", s)
	}
	tag := w.nodes[0].Image.Spec.Images["registry.local:5000/agent"].Tags[0]
	if tag.Tag != "2" || tag.Version != 0 || *tag.PullPolicy.TimeoutSeconds != 600 || *tag.PullPolicy.BackoffLimit != 3 || tag.PullPolicy.ActiveDeadlineSeconds != nil ||
		*tag.PullPolicy.TTLSecondsAfterFinished < 360 || *tag.PullPolicy.TTLSecondsAfterFinished >= 660 || tag.OwnerReferences[0] != Owner(job) {
		t.Errorf("the tag is %+v with %+v", tag, tag.PullPolicy)
	}
	w.work(&w.nodes[0], false)
	w.work(&w.nodes[0], false)
	w.decide(job, nil)
	if s := job.Status; s.Failed != 1 || s.Active != 2 || s.Message != "job is running, progress 33.3%" || !slices.Equal(s.FailedNodes, []string{"n000"}) {
		t.Errorf("a failed node makes no room: %+v", s)
	}
	w.now = w.now.Add(time.Minute)
	w.finish(true)
	plan := w.decide(job, nil)
	if s := job.Status; s.Succeeded != 2 || s.Failed != 1 || s.Active != 0 || s.Message != "job has completed" || !s.CompletionTime.Time.Equal(w.now) {
		t.Errorf("got %+v", s)
	}
	if want := w.now.Add(time.Minute); !plan.Wake.Equal(want) {
		t.Errorf("wakes at %v, want %v", plan.Wake, want)
	}
	want := []string{
		"PullImageFailed: Failed to pull image registry.local:5000/agent:2 on node n000 for no such image",
		"Completed: image registry.local:5000/agent:2 is there on 2 of 3 nodes, and was given up on 1",
	}
	if !slices.Equal(w.events, want) {
		t.Errorf("told %q, want %q", w.events, want)
	}
	if plan := w.decide(job, nil); plan.Delete || len(plan.Edits) > 0 {
		t.Errorf("too early: %+v", plan)
	}
	w.now = w.now.Add(time.Minute)
	if plan := w.decide(job, nil); !plan.Delete {
		t.Errorf("kept for longer than a minute: %+v", plan)
	}
}

func TestNodesThatJoinLater(t *testing.T) {
	for _, policy := range []v1beta1.CompletionPolicyType{v1beta1.CompletionAlways, v1beta1.CompletionNever} {
		w := newWorld(t, 2)
		job := w.addJob("job", "agent:2", 1, func(s *v1beta1.ImagePullJobSpec) { s.CompletionPolicy.Type = policy })
		w.decide(job, nil)
		w.addNode()
		for range 3 {
			w.finish(true)
			w.decide(job, nil)
		}
		if s := job.Status; s.Succeeded != 3 || (s.CompletionTime != nil) != (policy == v1beta1.CompletionAlways) {
			t.Errorf("%s: a running job has not served the new node: %+v", policy, s)
		}
		w.addNode()
		w.decide(job, nil)
		w.finish(true)
		w.decide(job, nil)
		want := map[v1beta1.CompletionPolicyType]int32{v1beta1.CompletionAlways: 3, v1beta1.CompletionNever: 4}[policy]
		if s := job.Status; s.Succeeded != want {
			t.Errorf("%s: %d nodes have the image in the end, want %d", policy, s.Succeeded, want)
		}
	}
}

func TestDeadline(t *testing.T) {
	w := newWorld(t, 3)
	job := w.addJob("job", "agent:2", 2, func(s *v1beta1.ImagePullJobSpec) { s.CompletionPolicy.ActiveDeadlineSeconds = new(int64(700)) })
	plan := w.decide(job, nil)
	if want := w.now.Add(700 * time.Second); !plan.Wake.Equal(want) {
		t.Errorf("wakes at %v, want %v", plan.Wake, want)
	}
	w.work(&w.nodes[0], true)
	w.work(&w.nodes[0], true)
	w.work(&w.nodes[1], true)
	w.now = w.now.Add(700 * time.Second)
	w.decide(job, nil)
	if s := job.Status; s.Message != "job exceeds activeDeadlineSeconds" || s.Failed != 2 || s.Succeeded != 1 || s.Active != 0 || s.CompletionTime == nil ||
		!slices.Equal(s.FailedNodes, []string{"n001", "n002"}) {
		t.Errorf("got %+v", s)
	}
	if w.activeOf(job) != 0 {
		t.Error("a node still pulls for a job that has ended")
	}
}

func TestAnotherImage(t *testing.T) {
	w := newWorld(t, 2)
	job := w.addJob("job", "agent:2", 2, nil)
	w.decide(job, nil)
	w.finish(true)
	job.Spec.Image = "agent:3"
	w.decide(job, nil)
	for _, n := range w.nodes {
		if tags := n.Image.Spec.Images["agent"].Tags; len(tags) != 1 || tags[0].Tag != "3" {
			t.Errorf("%s has %+v", n.Name, tags)
		}
	}
	job.Spec.Image = "other"
	w.decide(job, nil)
	if images := w.nodes[0].Image.Spec.Images; len(images) != 1 || images["other"].Tags[0].Tag != "latest" {
		t.Errorf("got %+v", images)
	}
}

func TestANodeThatIsChosenNoLonger(t *testing.T) {
	w := newWorld(t, 2)
	job := w.addJob("job", "agent:2", 1, func(s *v1beta1.ImagePullJobSpec) {
		s.Selector = &v1beta1.ImagePullJobNodeSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"zone": "0"}}}
	})
	w.decide(job, nil)
	w.nodes[0].Labels["zone"] = "1"
	w.nodes[1].Labels["zone"] = "0"
	w.decide(job, nil)
	w.decide(job, nil)
	if len(w.nodes[0].Image.Spec.Images) != 0 || len(w.nodes[1].Image.Spec.Images) != 1 || job.Status.Desired != 1 {
		t.Errorf("got %+v and %+v", w.nodes[0].Image.Spec, w.nodes[1].Image.Spec)
	}

	w = newWorld(t, 1)
	job = w.addJob("pods", "agent:2", 1, func(s *v1beta1.ImagePullJobSpec) { s.PodSelector = &v1beta1.ImagePullJobPodSelector{} })
	w.decide(job, func(s *Snapshot) { s.PodNodes = map[string]bool{"n000": true} })
	w.decide(job, nil)
	if s := job.Status; s.Desired != 1 || s.Active != 1 || s.CompletionTime != nil {
		t.Errorf("a node whose pod is gone was dropped: %+v", s)
	}
}

func TestAJobThatIsChanged(t *testing.T) {
	w := newWorld(t, 2)
	job := w.addJob("job", "agent:2", 1, nil)
	w.decide(job, nil)
	job.Spec.PullPolicy = &v1beta1.PullPolicy{TimeoutSeconds: new(int32(30)), BackoffLimit: new(int32(0))}
	w.decide(job, nil)
	tag := w.nodes[0].Image.Spec.Images["agent"].Tags[0]
	if *tag.PullPolicy.TimeoutSeconds != 30 || *tag.PullPolicy.BackoffLimit != 0 || tag.Version != 0 {
		t.Errorf("got %+v with %+v", tag, tag.PullPolicy)
	}
	if plan := w.decide(job, nil); len(plan.Edits) > 0 {
		t.Errorf("edits %+v although nothing has changed", plan.Edits)
	}
}

func TestOneImageForSeveralJobs(t *testing.T) {
	w := newWorld(t, 1)
	first := w.addJob("first", "agent:2", 1, func(s *v1beta1.ImagePullJobSpec) { s.PullPolicy = &v1beta1.PullPolicy{TimeoutSeconds: new(int32(30))} })
	second := w.addJob("second", "docker.io/library/agent:2", 1, nil)
	w.decide(first, nil)
	w.work(&w.nodes[0], true)
	w.decide(second, nil)
	tag := w.nodes[0].Image.Spec.Images["agent"].Tags[0]
	if len(tag.OwnerReferences) != 2 || tag.Version != 0 || *tag.PullPolicy.TimeoutSeconds != 600 {
		t.Errorf("what is being pulled was not joined: %+v with %+v", tag, tag.PullPolicy)
	}
	w.finish(true)
	w.decide(first, nil)
	w.decide(second, nil)
	if first.Status.Succeeded != 1 || second.Status.Succeeded != 1 || w.pulls["n000"] != 1 {
		t.Errorf("%+v and %+v after %d pulls", first.Status, second.Status, w.pulls["n000"])
	}
	third := w.addJob("third", "agent:2", 1, nil)
	w.decide(third, nil)
	if tag := w.nodes[0].Image.Spec.Images["agent"].Tags[0]; tag.Version != 1 || len(tag.OwnerReferences) != 3 {
		t.Errorf("what is done is not looked at anew: %+v", tag)
	}
	delete(w.jobs, "first")
	delete(w.jobs, "second")
	w.sweep(&w.nodes[0])
	if owners := w.nodes[0].Image.Spec.Images["agent"].Tags[0].OwnerReferences; len(owners) != 1 || owners[0].Name != "third" {
		t.Errorf("the owners are %+v", owners)
	}
	always := w.addJob("always", "agent:2", 1, func(s *v1beta1.ImagePullJobSpec) { s.ImagePullPolicy = v1beta1.PullAlways })
	w.decide(always, nil)
	if tag := w.nodes[0].Image.Spec.Images["agent"].Tags[0]; tag.Version != 2 || tag.ImagePullPolicy != v1beta1.PullAlways {
		t.Errorf("the registry is not asked: %+v", tag)
	}
}

// TestALargeJobBeginsInSteps: the nodes begin a hundred at a time, and the status says so on the way.
func TestALargeJobBeginsInSteps(t *testing.T) {
	w := newWorld(t, 250)
	job := w.addJob("job", "agent:2", 240, nil)
	for _, want := range []struct {
		active int32
		more   bool
	}{{100, true}, {200, true}, {240, false}, {240, false}} {
		if plan := w.decide(job, nil); plan.Status.Active != want.active || plan.More != want.more {
			t.Errorf("%d are active, more to come: %v; want %+v", plan.Status.Active, plan.More, want)
		}
	}
}

// TestALaterJobTakesNothingBack: what has ended for one job stays ended for it when another has the same image looked at anew.
func TestALaterJobTakesNothingBack(t *testing.T) {
	w := newWorld(t, 3)
	first := w.addJob("first", "agent:2", 3, func(s *v1beta1.ImagePullJobSpec) { s.CompletionPolicy.Type = v1beta1.CompletionNever })
	w.decide(first, nil)
	for i := range w.nodes {
		w.work(&w.nodes[i], i > 0)
		w.work(&w.nodes[i], i > 0)
	}
	check := func(when string, failed int32) {
		t.Helper()
		w.decide(first, nil)
		if s := first.Status; s.Active != 0 || s.Succeeded != 3-failed || s.Failed != failed || int(failed) != len(s.FailedNodes) {
			t.Errorf("%s: %+v", when, s)
		}
	}
	check("at first", 1)
	second := w.addJob("second", "agent:2", 3, nil)
	w.decide(second, nil)
	if second.Status.Active != 3 {
		t.Fatalf("the second job is at %+v", second.Status)
	}
	check("when another job has joined", 1)
	for i := range w.nodes {
		w.work(&w.nodes[i], true)
	}
	check("while the agents look", 1)
	for i := range w.nodes {
		w.work(&w.nodes[i], true)
	}
	check("when they have looked, and what had failed was pulled", 0)
	if w.decide(second, nil); second.Status.Succeeded != 3 {
		t.Errorf("the second job ended as %+v", second.Status)
	}
	if s := ImageStateOf(w.nodes[1].Image, "agent", "2", first.UID); !s.There {
		t.Errorf("the image is not there: %+v", s)
	}
}

func TestATagThatComesBack(t *testing.T) {
	w := newWorld(t, 1)
	job := w.addJob("job", "agent:2", 1, nil)
	w.decide(job, nil)
	w.finish(true)
	delete(w.jobs, "job")
	w.sweep(&w.nodes[0])
	w.decide(w.addJob("again", "agent:2", 1, nil), nil)
	if tag := w.nodes[0].Image.Spec.Images["agent"].Tags[0]; tag.Version != 1 {
		t.Errorf("an old report would count for the new job: %+v", tag)
	}
}

func TestANodeWithoutRoom(t *testing.T) {
	w := newWorld(t, 2)
	images := map[string]v1beta1.ImageSpec{}
	for i := range MostImages {
		images[fmt.Sprintf("image%d", i)] = v1beta1.ImageSpec{Tags: []v1beta1.ImageTagSpec{{Tag: "1"}}}
	}
	w.nodes[0].Image.Spec.Images = images
	job := w.addJob("job", "agent:2", 1, nil)
	plan := w.decide(job, nil)
	if got := begun(&plan); got != "n001" || !strings.Contains(job.Status.Message, "1 nodes have no room for the image") {
		t.Errorf("begins %q, and says %q", got, job.Status.Message)
	}
}

func TestSecretsAndSandbox(t *testing.T) {
	w := newWorld(t, 1)
	job := w.addJob("job", "agent:2", 1, func(s *v1beta1.ImagePullJobSpec) {
		s.SandboxConfig = &v1beta1.SandboxConfig{Labels: map[string]string{"a": "b"}}
	})
	secrets := []v1beta1.ReferenceObject{{Namespace: "copies", Name: "one"}}
	w.decide(job, func(s *Snapshot) { s.Secrets = secrets })
	image := w.nodes[0].Image.Spec.Images["agent"]
	if !slices.Equal(image.Tags[0].PullSecrets, secrets) || image.SandboxConfig.Labels["a"] != "b" {
		t.Errorf("got %+v", image)
	}
	w.decide(job, func(s *Snapshot) { s.Hold = "secrets cannot be read" })
	if got := w.nodes[0].Image.Spec.Images["agent"].Tags[0].PullSecrets; !slices.Equal(got, secrets) {
		t.Errorf("a node that pulls has the secrets %v while the job is on hold", got)
	}
}

func TestSweep(t *testing.T) {
	deadline := func(s *v1beta1.ImagePullJobSpec) { s.CompletionPolicy.ActiveDeadlineSeconds = new(int64(700)) }
	waits := func(w *world, n *Node) { w.report(n, "agent", "2", v1beta1.ImagePhaseWaiting) }
	for name, e := range map[string]struct {
		change func(*v1beta1.ImagePullJobSpec)
		before func(w *world, n *Node)
		after  time.Duration
		want   string // the phase and message then; empty for none
	}{
		"says nothing":           {nil, nil, 10 * time.Minute, "Failed: node has not responded for a long time"},
		"not yet":                {nil, nil, 10*time.Minute - time.Second, ""},
		"pulls":                  {nil, func(w *world, n *Node) { w.work(n, true) }, 11 * time.Minute, "Pulling: "},
		"pulls for ever":         {nil, func(w *world, n *Node) { w.work(n, true) }, 52 * time.Minute, "Failed: node has not responded for a long time"},
		"waits":                  {nil, waits, 20*time.Minute - time.Second, "Waiting: "},
		"waits for ever":         {nil, waits, 20 * time.Minute, "Failed: the agent of the node does not answer: it has begun no pull"},
		"waits for another pull": {nil, func(w *world, n *Node) { waits(w, n); w.reportOther(n, v1beta1.ImagePhasePulling) }, 51 * time.Minute, "Waiting: "},
		"waits after another pull": {nil, func(w *world, n *Node) {
			waits(w, n)
			w.now = w.now.Add(time.Hour)
			w.reportOther(n, v1beta1.ImagePhaseFailed)
		}, 20*time.Minute - time.Second, "Waiting: "},
		"pulls, and has no time": {deadline, func(w *world, n *Node) { w.work(n, true) }, time.Hour, "Failed: pulling exceeds the activeDeadlineSeconds"},
		"is done":                {nil, func(w *world, n *Node) { w.finish(true) }, time.Hour, "Succeeded: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			n := &w.nodes[0]
			w.decide(w.addJob("job", "agent:2", 1, e.change), nil)
			if e.before != nil {
				e.before(w, n)
			}
			w.now = w.now.Add(e.after)
			swept := w.sweep(n)
			got := ""
			if s := tagStatus(&n.Image.Status, "agent", "2"); s != nil {
				got = string(s.Phase) + ": " + s.Message
			}
			if got != e.want || (swept.Status != nil) != strings.HasPrefix(e.want, "Failed") || (len(swept.Events) == 1) != (swept.Status != nil) {
				t.Errorf("got %q and %+v, want %q", got, swept, e.want)
			}
			if e.want == "" && !swept.Wake.Equal(w.now.Add(time.Second)) {
				t.Errorf("wakes at %v", swept.Wake)
			}
			if s := n.Image.Status; swept.Status != nil && (s.Desired != 1 || s.Failed != 1 || s.Pulling+s.Waiting+s.Succeeded != 0) {
				t.Errorf("counted %+v", s)
			}
		})
	}
}

// TestADeadAgentHoldsNothing: what it was in the middle of has failed, and that is no sign of its life.
func TestADeadAgentHoldsNothing(t *testing.T) {
	w := newWorld(t, 1)
	n := &w.nodes[0]
	w.decide(w.addJob("job", "agent:2", 1, nil), nil)
	w.report(n, "agent", "2", v1beta1.ImagePhaseWaiting)
	w.decide(w.addJob("other", "other:1", 1, nil), nil)
	w.report(n, "other", "1", v1beta1.ImagePhasePulling)
	w.now = w.now.Add(time.Hour)
	w.sweep(n)
	w.now = w.now.Add(time.Second)
	w.sweep(n)
	if s := n.Image.Status; s.Failed != 2 {
		t.Errorf("the agent is dead, and its node is at %+v", s)
	}
}

func TestANodeThatIsNotReady(t *testing.T) {
	w := newWorld(t, 1)
	n := &w.nodes[0]
	w.decide(w.addJob("job", "agent:2", 1, nil), nil)
	w.report(n, "agent", "2", v1beta1.ImagePhaseWaiting)
	s := Sweep{Now: w.now.Add(10 * time.Minute), Image: n.Image, Since: w.now.Add(time.Second), Owner: w.ownerState}
	if swept := s.Run(); swept.Status != nil || !swept.Wake.Equal(w.now.Add(10*time.Minute+time.Second)) {
		t.Errorf("too early: %+v", swept)
	}
	s.Now = s.Now.Add(time.Second)
	if swept := s.Run(); swept.Status == nil {
		t.Error("a node that is not ready for ten minutes holds its job up")
	}
}

func TestTagsGoAfterTheirTime(t *testing.T) {
	for policy, gone := range map[v1beta1.CompletionPolicyType]bool{v1beta1.CompletionAlways: false, v1beta1.CompletionNever: true} {
		w := newWorld(t, 2)
		job := w.addJob("job", "agent:2", 1, func(s *v1beta1.ImagePullJobSpec) { s.CompletionPolicy.Type = policy })
		w.decide(job, nil)
		w.finish(true)
		n := &w.nodes[0]
		w.now = w.now.Add(25 * time.Hour)
		w.sweep(n)
		if left := len(n.Image.Spec.Images); (left == 0) != gone {
			t.Errorf("%s: %d images are left while the job runs", policy, left)
		}
		w.decide(job, nil)
		w.finish(true)
		w.decide(job, nil)
		if policy == v1beta1.CompletionAlways {
			w.now = w.now.Add(25 * time.Hour)
			w.sweep(n)
			if len(n.Image.Spec.Images) != 0 {
				t.Error("a tag outlives its job's end and its own time")
			}
		}
	}
}

// BenchmarkDecide: a pass over 1,000 nodes of which nothing has happened on any.
func BenchmarkDecide(b *testing.B) {
	w := newWorld(&testing.T{}, 1000)
	job := w.addJob("job", "agent:2", 10, nil)
	w.decide(job, nil)
	for b.Loop() {
		Decide(Snapshot{Now: w.now, Job: job, Nodes: w.nodes})
	}
}
