// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// waits lets the pod's container wait.
func waits(reason, message string) func(p *corev1.Pod) {
	return status(func(s *corev1.ContainerStatus) {
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
}

func ended(code int32, reason string) func(p *corev1.Pod) {
	return status(func(s *corev1.ContainerStatus) {
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: "panic at 12:03:04"}
	})
}

func observed(generation int64) func(p *corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ObservedGeneration = generation }
}

func unscheduled(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/4 nodes are available: 1 Insufficient cpu.",
	})
}

func TestTrouble(t *testing.T) {
	initWaits := func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "done"}, {Name: "i", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName"},
		}}}
	}
	long := strings.Repeat("ö", 200)
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"runs":                            {pod(), ""},
		"is being made":                   {pod(waits("ContainerCreating", "")), ""},
		"waits for its init containers":   {pod(waits("PodInitializing", "")), ""},
		"no image":                        {pod(waits("ErrImagePull", "not found")), "container a: ErrImagePull: not found"},
		"no image, and backs off":         {pod(waits("ImagePullBackOff", `Back-off pulling image "a:2": ErrImagePull: not found`)), "container a: ErrImagePull: not found"},
		"backs off without a cause":       {pod(waits("ImagePullBackOff", `Back-off pulling image "a:2"`)), `container a: ImagePullBackOff: Back-off pulling image "a:2"`},
		"backs off with words of its own": {pod(waits("ImagePullBackOff", "later: again")), "container a: ImagePullBackOff: later: again"},
		"no message":                      {pod(waits("CreateContainerError", "")), "container a: CreateContainerError"},
		"several lines":                   {pod(waits("RunContainerError", " no such\n\tfile\n")), "container a: RunContainerError: no such file"},
		"a long message":                  {pod(waits("CreateContainerConfigError", long)), "container a: CreateContainerConfigError: " + long[:2*(120-len(": CreateContainerConfigError: "))] + "..."},
		"crashes":                         {pod(waits("CrashLoopBackOff", "back-off 40s restarting"), ended(1, "Error")), "container a: CrashLoopBackOff: its last run ended with exit code 1"},
		"has not enough memory":           {pod(waits("CrashLoopBackOff", "back-off 5m0s restarting"), ended(137, "OOMKilled")), "container a: CrashLoopBackOff: its last run ended with exit code 137 (OOMKilled)"},
		"crashes, nobody knows how":       {pod(waits("CrashLoopBackOff", "back-off 10s restarting")), "container a: CrashLoopBackOff"},
		"an init container comes first":   {pod(waits("PodInitializing", ""), initWaits), "init container i: InvalidImageName"},
		"no node":                         {pod(unscheduled), "the pod has no node yet: Unschedulable: 0/4 nodes are available: 1 Insufficient cpu."},
		"said of the newest generation":   {pod(waits("InvalidImageName", ""), observed(2)), "container a: InvalidImageName"},
		"said of an earlier generation":   {pod(waits("InvalidImageName", ""), observed(1)), ""},
	} {
		if got := kruise.Facts(c.pod).Trouble; got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

// TestTroubleIsReported: only what the pod says that the node waits for makes it a failing one.
func TestTroubleIsReported(t *testing.T) {
	const trouble = "container a: ErrImagePull: not found"
	current := rollout.Pod{Trouble: trouble}
	leaving, old, changed := current, current, current
	leaving.Deleting = true
	old.Revision = 1
	changed.Revision, changed.InPlace = 1, rollout.InPlacePatched
	for name, c := range map[string]struct {
		kind   rollout.VerdictKind
		pods   []rollout.Pod
		failed bool
	}{
		"not available":                     {rollout.WaitAvailable, []rollout.Pod{current}, true},
		"not available, beside the old one": {rollout.WaitAvailable, []rollout.Pod{{Revision: 1}, current}, true},
		"not available, but without words":  {rollout.WaitAvailable, []rollout.Pod{{}}, false},
		"the old one has trouble":           {rollout.WaitAvailable, []rollout.Pod{old, {}}, false},
		"the one that goes has trouble":     {rollout.WaitAvailable, []rollout.Pod{leaving, {}}, false},
		"changed in place":                  {rollout.WaitInPlace, []rollout.Pod{changed}, true},
		"something is done about it":        {rollout.ReplacingFailed, []rollout.Pod{current}, false},
		"it goes":                           {rollout.WaitTerminating, []rollout.Pod{leaving}, false},
	} {
		o := world(c.kind, rollout.WaitBudget)
		o.Snapshot.Nodes[0].Pods = c.pods
		got, want := show(kruise.Conditions(nil, o)), "Degraded=False AsExpected"
		if c.failed {
			want = "Degraded=True PodsFailing (n1: " + c.kind.Sentence() + "; " + trouble + ")"
			progress := "Progressing=False PodsFailing (0 of 2 nodes have a pod of the newest revision; failing: n1: " + c.kind.Sentence() + "; " + trouble + "; waiting for their turn: 1 node)"
			if !strings.Contains(got, progress) {
				t.Errorf("%s:\n%s\nwant %s", name, got, progress)
			}
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s:\n%s\nwant %s", name, got, want)
		}
	}
}
