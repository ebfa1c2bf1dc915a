// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// conditionOf returns which condition of a status is True, and its reason; there must be exactly one, of the generation of the job.
func conditionOf(t *testing.T, job *v1beta1.ImagePullJob, status *v1beta1.ImagePullJobStatus) string {
	t.Helper()
	var is []string
	for _, c := range status.Conditions {
		if c.Status == metav1.ConditionTrue {
			is = append(is, c.Type+" "+c.Reason)
		}
		if c.ObservedGeneration != job.Generation {
			t.Errorf("%s is of generation %d, the job of %d", c.Type, c.ObservedGeneration, job.Generation)
		}
	}
	if len(is) != 1 || len(status.Conditions) != 3 || status.ObservedGeneration != job.Generation {
		t.Errorf("the status is %+v", status)
	}
	return strings.Join(is, ", ")
}

// TestConditionsOfAJobThatIsHeld: nodes that the rollout holds back are not pulled for, and count neither as under way nor as failed.
func TestConditionsOfAJobThatIsHeld(t *testing.T) {
	w := newWorld(t, 3)
	job := w.addJob("j", "img:v1", 9, nil)
	held := map[string]bool{"n001": true, "n002": true}
	decide := func() Plan { return w.decide(job, func(s *Snapshot) { s.Held = held }) }
	plan := decide()
	if got := conditionOf(t, job, &plan.Status); got != "Reconciling Pulling" || begun(&plan) != "n000" {
		t.Errorf("%q, begins %q", got, begun(&plan))
	}
	if want := "job is running, progress 0.0%; 2 nodes pull the image when the rollout releases them"; plan.Status.Message != want {
		t.Errorf("the message is %q", plan.Status.Message)
	}
	for range 2 {
		w.work(w.node("n000"), true)
	}
	plan = decide()
	if got := conditionOf(t, job, &plan.Status); got != "Ready NotReleased" || plan.Status.Succeeded != 1 || plan.Status.Desired != 3 {
		t.Errorf("%q: %+v", got, plan.Status)
	}
	delete(held, "n002")
	if plan = decide(); begun(&plan) != "n002" {
		t.Errorf("released, it begins %q", begun(&plan))
	}
	held["n002"] = true
	plan = decide()
	if got := conditionOf(t, job, &plan.Status); got != "Reconciling Pulling" || plan.Status.Active != 1 {
		t.Errorf("held again, %q: %+v", got, plan.Status)
	}
	for range 2 {
		w.work(w.node("n002"), false)
	}
	plan = decide()
	if got := conditionOf(t, job, &plan.Status); plan.Status.Failed != 1 || got != "Stalled PullsFailed" {
		t.Errorf("failed, %q: %+v", got, plan.Status)
	}
}

func TestConditionsOfAJob(t *testing.T) {
	for name, e := range map[string]struct {
		change func(*v1beta1.ImagePullJobSpec)
		hold   string
		want   string
	}{
		"begins":             {nil, "", "Reconciling Pulling"},
		"paused":             {func(s *v1beta1.ImagePullJobSpec) { p := intstr.FromInt32(0); s.Parallelism = &p }, "", "Ready Paused"},
		"no permission":      {nil, "the secret x cannot be read", "Reconciling Held"},
		"no node":            {func(s *v1beta1.ImagePullJobSpec) { s.Selector = &v1beta1.ImagePullJobNodeSelector{Names: []string{}} }, "", "Ready Complete"},
		"image not readable": {func(s *v1beta1.ImagePullJobSpec) { s.Image = ":" }, "", "Stalled InvalidSpec"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			job := w.addJob("j", "img:v1", 1, e.change)
			job.Generation = 4
			plan := Decide(Snapshot{Now: w.now, Job: job, Nodes: w.nodes, Hold: e.hold})
			if got := conditionOf(t, job, &plan.Status); got != e.want {
				t.Errorf("got %q, want %q", got, e.want)
			}
			job.Status = plan.Status
			if again := Decide(Snapshot{Now: w.now.Add(time.Minute), Job: job, Nodes: w.nodes, Hold: e.hold}); name != "begins" && !reflect.DeepEqual(again.Status, plan.Status) {
				t.Errorf("the status changes although nothing has happened:\n%+v\n%+v", plan.Status, again.Status)
			}
		})
	}
}

// TestConditionsOfAJobThatEnds: a job with a failed node does not count as done, and a change after the end is observed.
func TestConditionsOfAJobThatEnds(t *testing.T) {
	for phase, want := range map[v1beta1.ImagePullPhase]string{v1beta1.ImagePhaseSucceeded: "Ready Complete", v1beta1.ImagePhaseFailed: "Stalled PullsFailed"} {
		w := newWorld(t, 1)
		job := w.addJob("j", "img:v1", 1, nil)
		job.Generation = 1
		job.Status = w.decide(job, nil).Status
		n := w.node("n000")
		tag := n.Image.Spec.Images["img"].Tags[0]
		n.Image.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"img": {Tags: []v1beta1.ImageTagStatus{{Tag: "v1", Version: tag.Version, Phase: phase}}}}
		plan := w.decide(job, nil)
		if got := conditionOf(t, job, &plan.Status); got != want || plan.Status.CompletionTime == nil {
			t.Errorf("%s: %q, want %q: %+v", phase, got, want, plan.Status)
		}
		job.Status, job.Generation = plan.Status, 2
		if again := w.decide(job, nil); again.Status.ObservedGeneration != 2 {
			t.Errorf("%s: after a change, generation %d is observed", phase, again.Status.ObservedGeneration)
		}
	}
}

// TestConditionsOfAJobThatHadEnded: a job that OpenKruise, or a version without conditions, has completed gets them from its numbers. Without them, tools would wait for it for ever.
func TestConditionsOfAJobThatHadEnded(t *testing.T) {
	for want, numbers := range map[string]v1beta1.ImagePullJobStatus{
		"Ready Complete":      {Desired: 3, Succeeded: 3},
		"Stalled PullsFailed": {Desired: 3, Succeeded: 2, Failed: 1},
		// OpenKruise counts no node as failed that was pulling at the deadline.
		"Stalled PullsFailed, late": {Desired: 3, Succeeded: 2, Message: "job exceeds activeDeadlineSeconds"},
	} {
		w := newWorld(t, 3)
		job := w.addJob("j", "img:v1", 1, nil)
		end := metav1.NewTime(w.now.Add(-time.Hour))
		job.Generation, job.Status = 3, numbers
		job.Status.CompletionTime = &end
		plan := w.decide(job, nil)
		if got := conditionOf(t, job, &plan.Status); got != strings.TrimSuffix(want, ", late") || plan.Status.Succeeded != numbers.Succeeded || !plan.Status.CompletionTime.Equal(&end) {
			t.Errorf("%q, want %q: %+v", got, want, plan.Status)
		}
		job.Status = plan.Status
		if again := Decide(Snapshot{Now: w.now.Add(time.Minute), Job: job, Nodes: w.nodes}); !reflect.DeepEqual(again.Status, plan.Status) {
			t.Errorf("the status changes although nothing has happened:\n%+v\n%+v", plan.Status, again.Status)
		}
	}
}

// TestAJobThatWaitsForItsSecretsIsStalled: it does not continue by itself, so a tool must not wait for it for ever. A permission may come moments later, and then it continues.
func TestAJobThatWaitsForItsSecretsIsStalled(t *testing.T) {
	w := newWorld(t, 3)
	job := w.addJob("j", "img:v1", 1, nil)
	for _, e := range []struct {
		after time.Duration
		hold  string
		want  string
	}{
		{0, "the secret x cannot be read", "Reconciling Held"},
		{9 * time.Minute, "the secret y cannot be read", "Reconciling Held"},
		{time.Minute, "the secret y cannot be read", "Stalled Held"},
		{time.Hour, "the secret y cannot be read", "Stalled Held"},
		{time.Minute, "", "Reconciling Pulling"},
	} {
		w.now = w.now.Add(e.after)
		plan := Decide(Snapshot{Now: w.now, Job: job, Nodes: w.nodes, Hold: e.hold})
		if got := conditionOf(t, job, &plan.Status); got != e.want {
			t.Errorf("%s later: got %q, want %q", e.after, got, e.want)
		}
		job.Status = plan.Status
	}
}

// TestAJobOfAnEarlierVersionIsHeld: a version before wrote that such a job is not Stalled. Its time counts from the upgrade.
func TestAJobOfAnEarlierVersionIsHeld(t *testing.T) {
	w := newWorld(t, 1)
	job := w.addJob("j", "img:v1", 1, nil)
	decide := func() string {
		plan := Decide(Snapshot{Now: w.now, Job: job, Nodes: w.nodes, Hold: "the secret x cannot be read"})
		job.Status = plan.Status
		return conditionOf(t, job, &plan.Status)
	}
	decide()
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == ConditionStalled {
			c.Status = metav1.ConditionFalse
		}
	}
	w.now = w.now.Add(time.Hour)
	if got := decide(); got != "Reconciling Held" {
		t.Errorf("after the upgrade: %q", got)
	}
	w.now = w.now.Add(10 * time.Minute)
	if got := decide(); got != "Stalled Held" {
		t.Errorf("ten minutes later: %q", got)
	}
}
