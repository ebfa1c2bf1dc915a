// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/rollout"
)

// TestPodsThatPull: what a kubelet reports of a pod decides whether it waits for an image.
func TestPodsThatPull(t *testing.T) {
	always, yes := corev1.ContainerRestartPolicyAlways, true
	waits := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "a", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	}
	running := corev1.ContainerStatus{Name: "b", Started: &yes, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	ended := func(code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	again := waits("ContainerCreating")
	again.LastTerminationState = ended(1).State
	type statuses = []corev1.ContainerStatus
	for name, c := range map[string]struct {
		init, main statuses
		ready      corev1.ConditionStatus
		reason     string
		change     func(p *corev1.Pod)
		want       rollout.Pull
	}{
		"before Kubernetes 1.29":                  {main: statuses{waits("ContainerCreating")}, want: rollout.MayPull},
		"before Kubernetes 1.36":                  {main: statuses{waits("ContainerCreating")}, ready: corev1.ConditionFalse, want: rollout.MayPull},
		"no sandbox":                              {main: statuses{waits("ContainerCreating")}, ready: corev1.ConditionFalse, reason: "PodSandboxNotReady", want: rollout.NoPull},
		"a sandbox":                               {main: statuses{waits("ContainerCreating")}, ready: corev1.ConditionTrue, want: rollout.Pulls},
		"the second container":                    {main: statuses{running, waits("ContainerCreating")}, ready: corev1.ConditionTrue, want: rollout.Pulls},
		"an init container":                       {init: statuses{waits("PodInitializing")}, main: statuses{waits("PodInitializing")}, ready: corev1.ConditionTrue, want: rollout.Pulls},
		"an init container runs":                  {init: statuses{running}, main: statuses{waits("PodInitializing")}, ready: corev1.ConditionTrue, want: rollout.NoPull},
		"an init container has ended":             {init: statuses{ended(0)}, main: statuses{waits("PodInitializing")}, ready: corev1.ConditionTrue, want: rollout.Pulls},
		"an init container has failed":            {init: statuses{ended(1)}, main: statuses{waits("PodInitializing")}, ready: corev1.ConditionTrue, want: rollout.NoPull},
		"the second init container":               {init: statuses{ended(0), waits("PodInitializing")}, main: statuses{waits("PodInitializing")}, ready: corev1.ConditionTrue, want: rollout.Pulls},
		"the pull has failed":                     {main: statuses{waits("ErrImagePull")}, ready: corev1.ConditionTrue, want: rollout.NoPull},
		"a container runs":                        {main: statuses{running}, ready: corev1.ConditionTrue, want: rollout.NoPull},
		"a container that has run before":         {main: statuses{again}, ready: corev1.ConditionTrue, want: rollout.NoPull},
		"nothing is reported":                     {want: rollout.NoPull},
		"the pod has no node":                     {main: statuses{waits("ContainerCreating")}, change: func(p *corev1.Pod) { p.Spec.NodeName = "" }, want: rollout.NoPull},
		"the pod runs":                            {main: statuses{waits("ContainerCreating")}, change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, want: rollout.NoPull},
		"a sidecar runs":                          {init: statuses{running}, main: statuses{waits("PodInitializing")}, ready: corev1.ConditionTrue, change: func(p *corev1.Pod) { p.Spec.InitContainers[0].RestartPolicy = &always }, want: rollout.Pulls},
		"a sidecar that has not become ready yet": {init: statuses{{Name: "b", State: running.State}}, main: statuses{waits("PodInitializing")}, ready: corev1.ConditionTrue, change: func(p *corev1.Pod) { p.Spec.InitContainers[0].RestartPolicy = &always }, want: rollout.NoPull},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", InitContainers: []corev1.Container{{Name: "b"}}}}
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: c.init, ContainerStatuses: c.main}
			if c.ready != "" {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.PodReadyToStartContainers, Status: c.ready, Reason: c.reason}}
			}
			if c.change != nil {
				c.change(p)
			}
			if rec, _ := PodFrom(p); rec.Pull != c.want {
				t.Errorf("it is %d, want %d", rec.Pull, c.want)
			}
		})
	}
}

// TestThePullReachesTheCache: the cache passes the answer on, and a change of it is one of the pod.
func TestThePullReachesTheCache(t *testing.T) {
	x := newFixture(t).x
	rec := pod("ds", "a", "")
	rec.UID, rec.RV = "a", "1"
	x.PutPod(rec)
	rec.RV, rec.Pull = "2", rollout.Pulls
	x.PutPod(rec)
	if got := x.pods["a"].pod(); got.Pull != rollout.Pulls {
		t.Errorf("the cache has %d", got.Pull)
	}
}

// TestHowContainersEnded: of the first container that does not run, how it last ended.
func TestHowContainersEnded(t *testing.T) {
	ended := func(code int32, reason string) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}
	}
	works := corev1.ContainerStatus{Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	works.LastTerminationState.Terminated = ended(7, "Error") // long ago
	waits := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
	crashes := waits
	crashes.LastTerminationState.Terminated = ended(1, "Error")
	for name, c := range map[string]struct {
		init, main []corev1.ContainerStatus
		code       int32
		reason     string
		is         bool
	}{
		"works":      {main: []corev1.ContainerStatus{works}},
		"waits":      {main: []corev1.ContainerStatus{works, waits}},
		"crashes":    {main: []corev1.ContainerStatus{works, crashes}, code: 1, reason: "Error", is: true},
		"has ended":  {main: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: ended(137, "OOMKilled")}}}, code: 137, reason: "OOMKilled", is: true},
		"init fails": {init: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: ended(2, "")}}}, main: []corev1.ContainerStatus{waits}, code: 2, is: true},
		"init done":  {init: []corev1.ContainerStatus{{Ready: true, State: corev1.ContainerState{Terminated: ended(0, "Completed")}}}, main: []corev1.ContainerStatus{waits}},
		"another":    {main: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: ended(9, "Unheard")}}}, code: 9, is: true},
	} {
		rec, _ := PodFrom(&corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: c.init, ContainerStatuses: c.main}})
		if rec.ExitCode != c.code || rec.Ended.String() != c.reason || (rec.Ended != rollout.NotEnded) != c.is {
			t.Errorf("%s: code %d, reason %q (%d)", name, rec.ExitCode, rec.Ended, rec.Ended)
		}
	}
	x := newFixture(t).x
	rec := pod("ds", "a", "")
	rec.UID, rec.RV = "a", "1"
	x.PutPod(rec)
	rec.RV, rec.Ended, rec.ExitCode = "2", rollout.EndingFor("Error"), 3
	x.PutPod(rec)
	if got := x.pods["a"].pod(); got.ExitCode != 3 || got.Ended != rec.Ended {
		t.Errorf("the cache has %d and %q", got.ExitCode, got.Ended)
	}
}
