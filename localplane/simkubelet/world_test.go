// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// world is one pod on one node with a clock of its own; what the kubelet writes is applied as the API server does.
type world struct {
	t       *testing.T
	now     time.Time
	began   time.Time
	pod     *v1.Pod
	state   *Pod
	node    Node
	profile Profile
	lines   []string
	writes  int
	deleted bool
}

// steady is a profile without jitter, so that the times in the tests can be counted on.
func steady() Profile {
	p := Realistic()
	p.Jitter = 0
	return p
}

func newWorld(t *testing.T, profile Profile, images ...string) *world {
	t.Helper()
	w := &world{
		t: t, now: time.Unix(1_700_000_000, 0), profile: profile,
		node: Node{IP: "198.18.0.1", Images: NewImageStore(), Ready: true},
		pod: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: types.UID("uid-1"), Generation: 1},
			Spec:       v1.PodSpec{NodeName: "node-0001", RestartPolicy: v1.RestartPolicyAlways},
			Status: v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{
				{Type: v1.PodScheduled, Status: v1.ConditionTrue},
			}},
		},
	}
	w.began = w.now
	for i, image := range images {
		w.pod.Spec.Containers = append(w.pod.Spec.Containers, v1.Container{Name: fmt.Sprintf("c%d", i), Image: image})
	}
	return w
}

func (w *world) input() Input {
	return Input{Now: w.now, Pod: w.pod, Node: w.node, Profile: w.profile}
}

// look advances the pod once at the present time and applies what follows.
func (w *world) look() Output {
	w.t.Helper()
	if w.state == nil {
		w.state = NewPod(w.input(), "10.128.0.7")
	}
	out := w.state.Advance(w.input())
	if out.Status != nil {
		w.apply(out.Status)
	}
	if out.Delete {
		w.deleted = true
		w.note("deleted")
	}
	return out
}

func (w *world) apply(status *v1.PodStatus) {
	w.t.Helper()
	patch, err := statusPatch(w.pod, status)
	if err != nil {
		w.t.Fatal(err)
	}
	before, err := json.Marshal(w.pod)
	if err != nil {
		w.t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, v1.Pod{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.pod = &v1.Pod{}
	if err := json.Unmarshal(after, w.pod); err != nil {
		w.t.Fatal(err)
	}
	w.writes++
	w.note(summary(w.pod))
	if again := w.state.Advance(w.input()); again.Status != nil {
		w.t.Errorf("after its own write the kubelet writes again: %+v", again.Status)
	}
}

func (w *world) note(line string) {
	w.lines = append(w.lines, fmt.Sprintf("%.1f %s", w.now.Sub(w.began).Seconds(), line))
}

// run lets time pass for d, looking at the pod whenever it asked for it.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); ; {
		out := w.look()
		if w.deleted || out.Wake.IsZero() || out.Wake.After(end) {
			w.now = end
			return
		}
		if !out.Wake.After(w.now) {
			w.t.Fatalf("at %s the pod wants to be woken in the past, at %s", w.now, out.Wake)
		}
		w.now = out.Wake
	}
}

// restartKubelet forgets everything that is not in the API.
func (w *world) restartKubelet() { w.state = nil }

func (w *world) setImage(i int, image string) {
	w.pod = w.pod.DeepCopy()
	w.pod.Spec.Containers[i].Image = image
	w.pod.Generation++
}

func (w *world) expect(want string) {
	w.t.Helper()
	want = strings.ReplaceAll(strings.TrimSpace(want), "\t", "")
	if got := strings.Join(w.lines, "\n"); got != want {
		w.t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	w.lines = nil
}

// summary is a pod in a line: phase, Ready, and each container with its state, its restarts and, in brackets, its last end.
func summary(pod *v1.Pod) string {
	ready := "unready"
	if c := findCondition(pod.Status.Conditions, v1.PodReady); c != nil && c.Status == v1.ConditionTrue {
		ready = "ready"
	}
	parts := []string{string(pod.Status.Phase), ready}
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			parts = append(parts, containerSummary(&list[i]))
		}
	}
	return strings.Join(parts, " ")
}

func containerSummary(st *v1.ContainerStatus) string {
	state := "?"
	switch {
	case st.State.Running != nil && st.Ready:
		state = "ready"
	case st.State.Running != nil:
		state = "running"
	case st.State.Waiting != nil:
		state = st.State.Waiting.Reason
	case st.State.Terminated != nil:
		state = fmt.Sprintf("%s(%d)", st.State.Terminated.Reason, st.State.Terminated.ExitCode)
	}
	s := fmt.Sprintf("%s=%s/%d", st.Name, state, st.RestartCount)
	if last := st.LastTerminationState.Terminated; last != nil {
		s += "[" + last.Reason + "]"
	}
	return s
}
