// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/agent/cri"
)

// restartedPod is a pod of an Advanced DaemonSet with two containers and a sidecar, of which some are to be restarted.
func restartedPod(t *testing.T, state kruise.InPlaceState) *corev1.Pod {
	t.Helper()
	text, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	running := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, ContainerID: "containerd://" + name + "-1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p", UID: "uid", Annotations: map[string]string{kruise.InPlaceUpdateState: string(text)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: kruise.Group + "/v1beta1", Kind: kruise.Kind, Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To(int64(5))},
		Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{running("app"), running("side")}, InitContainerStatuses: []corev1.ContainerStatus{running("mesh")},
		},
	}
}

func wantedRestarts(names ...string) kruise.InPlaceState {
	state := kruise.InPlaceState{GateOpen: true, Restarts: map[string]string{}}
	for _, name := range names {
		state.Restarts[name] = "containerd://" + name + "-1"
	}
	return state
}

func TestRestartsOfAPod(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   []string
	}{
		"asked for":              {func(*corev1.Pod) {}, []string{"app-1", "mesh-1"}},
		"another container":      {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ContainerID = "containerd://app-2" }, []string{"mesh-1"}},
		"one that has ended":     {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running = nil }, []string{"mesh-1"}},
		"a pod that is deleted":  {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, nil},
		"a pod of another owner": {func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps/v1" }, nil},
		"no owner":               {func(p *corev1.Pod) { p.OwnerReferences = nil }, nil},
		"no state":               {func(p *corev1.Pod) { p.Annotations = nil }, nil},
		"a state that cannot be read": {func(p *corev1.Pod) {
			p.Annotations[kruise.InPlaceUpdateState] = "{"
		}, nil},
		"a preStop hook that a webhook has added": {func(p *corev1.Pod) {
			hook := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
			p.Spec.Containers = []corev1.Container{{Name: "app", Lifecycle: hook}, {Name: "side"}}
		}, []string{"mesh-1"}},
		"rules for its exit code that a webhook has added": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "mesh", RestartPolicyRules: []corev1.ContainerRestartRule{{}}}}
		}, []string{"app-1"}},
		"no restart of its own that a webhook has added": {func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Name: "app", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyNever)}}
		}, []string{"mesh-1"}},
		"a sidecar": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "mesh", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
		}, []string{"app-1", "mesh-1"}},
		"a gate that is closed": {func(p *corev1.Pod) {
			*p = *restartedPod(t, kruise.InPlaceState{Restarts: map[string]string{"app": "containerd://app-1"}})
			p.Status.Conditions = []corev1.PodCondition{{Type: kruise.InPlaceUpdateReady, Status: corev1.ConditionFalse}}
		}, []string{"app-1"}},
		"a gate that another controller has opened": {func(p *corev1.Pod) {
			*p = *restartedPod(t, kruise.InPlaceState{Restarts: map[string]string{"app": "containerd://app-1"}})
			p.Status.Conditions = []corev1.PodCondition{{Type: kruise.InPlaceUpdateReady, Status: corev1.ConditionTrue}}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := restartedPod(t, wantedRestarts("app", "mesh"))
			c.change(p)
			var got []string
			for _, one := range restartsOf(p) {
				if one.grace != 5*time.Second || one.container.PodUID != "uid" {
					t.Errorf("got %+v", one)
				}
				got = append(got, one.container.ID)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("restarts %v, want %v", got, c.want)
			}
		})
	}
}

// stops is a runtime that counts stops, and fails some.
type stops struct {
	mu    sync.Mutex
	asked []string
	fails int
	// environment is that of each container, and looks how often it was read.
	environment map[string]string
	looks       int
}

func (s *stops) Environment(context.Context, cri.Container) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return maps.Clone(s.environment), nil
}

func (s *stops) Stop(_ context.Context, c cri.Container, grace time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprint(c.ID, " ", grace))
	if s.fails > 0 {
		s.fails--
		return errors.New("the runtime is away")
	}
	return nil
}

// TestRestarter: each container is stopped once, however often its pod changes, and again only after a failure. What was read from the disk
// stops nothing.
func TestRestarter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime, pods, seen := &stops{fails: 1}, []*corev1.Pod{restartedPod(t, wantedRestarts("app"))}, false
		var mu sync.Mutex
		r := newRestarter(func() ([]*corev1.Pod, bool) {
			mu.Lock()
			defer mu.Unlock()
			return pods, seen
		})
		r.runtime = runtime
		ctx, cancel := context.WithCancel(t.Context())
		go r.run(ctx)
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			runtime.mu.Lock()
			defer runtime.mu.Unlock()
			if !slices.Equal(runtime.asked, want) {
				t.Fatalf("%s: %v, want %v", when, runtime.asked, want)
			}
		}
		change := func(f func()) {
			mu.Lock()
			f()
			mu.Unlock()
			r.notify()
		}
		expect("before the watch has synced")
		change(func() { seen = true })
		expect("with the watch", "app-1 5s")
		change(func() {})
		expect("while it waits after the failure", "app-1 5s")
		time.Sleep(downInterval)
		expect("after the failure", "app-1 5s", "app-1 5s")
		change(func() {})
		expect("when the pod changes", "app-1 5s", "app-1 5s")
		change(func() { pods[0] = restartedPod(t, wantedRestarts("app", "side")) })
		expect("with another request", "app-1 5s", "app-1 5s", "side-1 5s")
		change(func() { pods = nil })
		synctest.Wait()
		if len(r.known) != 0 {
			t.Errorf("still known: %v", r.known)
		}
		cancel()
		synctest.Wait()
	})
}

// A time to end that is longer than durations can be is a long one.
func TestRestartWithAVeryLongTimeToEnd(t *testing.T) {
	for _, seconds := range []int64{18446744074, 1 << 62} {
		p := restartedPod(t, wantedRestarts("app"))
		p.Spec.TerminationGracePeriodSeconds = &seconds
		if all := restartsOf(p); len(all) != 1 || all[0].grace < 365*24*time.Hour {
			t.Errorf("%d seconds: %+v", seconds, all)
		}
	}
}

// TestRestartForTheEnvironment: the kubelet gets some time to learn of the new label, and what it starts with the old one is stopped again. Later
// edits of the pod stop nothing, nor does a label of another container's variables, and a container whose environment something else changes is not
// stopped for ever.
func TestRestartForTheEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &stops{environment: map[string]string{"TIER": "old", "PATH": "/bin"}}
		var mu sync.Mutex
		pod := restartedPod(t, wantedRestarts("app", "side"))
		pod.Labels = map[string]string{"tier": "new"}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Env: []corev1.EnvVar{
			{Name: "PLAIN", Value: "x"},
			{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
			{Name: "TIER", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['tier']"}}},
		}}, {Name: "side"}}
		r := newRestarter(func() ([]*corev1.Pod, bool) {
			mu.Lock()
			defer mu.Unlock()
			return []*corev1.Pod{pod.DeepCopy()}, true
		})
		r.runtime = runtime
		ctx, cancel := context.WithCancel(t.Context())
		go r.run(ctx)
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			runtime.mu.Lock()
			defer runtime.mu.Unlock()
			if !slices.Equal(runtime.asked, want) {
				t.Fatalf("%s: %v, want %v", when, runtime.asked, want)
			}
		}
		runs := func(id string) {
			mu.Lock()
			pod.Status.ContainerStatuses[0].ContainerID = "containerd://" + id
			mu.Unlock()
			r.notify()
		}
		expect("at once", "side-1 5s")
		time.Sleep(kubeletDelay)
		want := []string{"side-1 5s", "app-1 5s"}
		expect("after the kubelet knows of it", want...)
		for _, id := range []string{"app-2", "app-3"} {
			runs(id)
			want = append(want, id+" 5s")
			expect("started with the old label", want...)
		}
		runtime.environment["TIER"] = "new"
		runs("app-4")
		expect("started with the new label", want...)
		if len(r.checks) != 0 || runtime.looks != 3 {
			t.Errorf("%d looks, still expected: %v", runtime.looks, r.checks)
		}
		mu.Lock()
		pod.Labels["tier"] = "edited"
		mu.Unlock()
		runs("app-5")
		expect("after an edit of the pod", want...)

		runtime.environment["TIER"] = "of a webhook of the runtime"
		r.checks[podContainer{"uid", "app"}] = check{stopped: "app-5"}
		for i := range 10 {
			runs(fmt.Sprint("app-", i+6))
			synctest.Wait()
		}
		if again := len(runtime.asked) - len(want); again != maxStale {
			t.Errorf("stopped %d times more, want %d", again, maxStale)
		}
		r.checks[podContainer{"gone", "app"}] = check{stopped: "app-1"}
		runs("app-99")
		synctest.Wait()
		if len(r.checks) != 0 {
			t.Errorf("a pod that is gone is remembered: %v", r.checks)
		}
		cancel()
		synctest.Wait()
	})
}

// TestAVariableThatIsSetTwice has the last value. What it would have read before does not show that a container has started with old values.
func TestAVariableThatIsSetTwice(t *testing.T) {
	reads := corev1.EnvVar{Name: "E", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['tier']"}}}
	fixed := corev1.EnvVar{Name: "E", Value: "x"}
	for name, c := range map[string]struct {
		env  []corev1.EnvVar
		want int
	}{"read, then fixed": {[]corev1.EnvVar{reads, fixed}, 0}, "fixed, then read": {[]corev1.EnvVar{fixed, reads}, 1}} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Env: c.env}}}}
		pod.Labels = map[string]string{"tier": "one"}
		if got := metadataVariables(pod, "app"); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
