// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/test/harness"
)

// missing is an image that the registry does not have.
const missing = repository + ":missing"

// inFlight opens three connections to a port of each pod, on which a question is always open, and returns what ends them, and fails if one was cut.
func (s *stage) inFlight(at int32) (survived func()) {
	s.t.Helper()
	const clients = 3
	var held []*asking
	for _, node := range s.Nodes {
		url := fmt.Sprintf("http://%s:%d/slow?for=1s", s.View().PodOn(set, node).Status.PodIP, at)
		held = append(held, s.ask(node, "hold", url, "--connections", fmt.Sprint(clients), "--timeout", "10s"))
	}
	return func() {
		s.t.Helper()
		for _, client := range held {
			client.noGap()
		}
	}
}

// inPlaceResize: the nodes give running containers other amounts of cpu and memory, up and down, and start none of them again.
func inPlaceResize(t *testing.T) {
	s := newStage(t, advancedInPlace())
	s.run(withSide, func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.Containers[0].Resources = limits("100m", "64Mi") })
	before := s.pods()
	survived := s.inFlight(sidePort)
	recorder := s.ObserveAdvanced(set)
	for _, to := range [][2]string{{"250m", "128Mi"}, {"150m", "96Mi"}} {
		generation := s.patch(jsonPatch, fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0/resources",
			"value": {"limits": {"cpu": %q, "memory": %q}, "requests": {"cpu": %[1]q, "memory": %[2]q}}}]`, to[0], to[1]))
		s.Wait("all containers have "+to[0]+" and "+to[1], harness.RolledOut(set, generation, count), harness.EachPod(set, "resized", has(limits(to[0], to[1]))))
		s.keptPods(before)
		s.sameContainers(before)
		for node, pod := range s.pods() {
			if err := limitedTo(statusOf(pod, set).ContainerID, to[0], to[1]); err != nil {
				t.Errorf("the container on node %s: %v", node, err)
			}
		}
	}
	survived()
	s.ran(set, "v1")
	s.ran(side, "v1")
	s.Judge(recorder)
}

// limits are requests and limits of these amounts.
func limits(cpu, memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.ResourceRequirements{Limits: list, Requests: list.DeepCopy()}
}

// has is whether the node reports these limits for the first container of a pod.
func has(want corev1.ResourceRequirements) func(pod *corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		have := statusOf(pod, set).Resources
		return have != nil && have.Limits.Cpu().Equal(*want.Limits.Cpu()) && have.Limits.Memory().Equal(*want.Limits.Memory())
	}
}

// limitedTo returns an error unless the kernel holds a container to these amounts. The files are those of cgroups of both versions.
func limitedTo(container, cpu, memory string) error {
	_, id, _ := strings.Cut(container, "://")
	const period = 100_000 // microseconds, the one that the kubelet uses
	quota := fmt.Sprint(quantity(cpu).MilliValue() * period / 1000)
	bytes := fmt.Sprint(quantity(memory).Value())
	want := map[string]string{
		"cpu.cfs_quota_us": quota, "cpu.max": fmt.Sprintf("%s %d", quota, period),
		"memory.limit_in_bytes": bytes, "memory.max": bytes,
	}
	read := 0
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return fs.SkipDir // a container has ended meanwhile
		}
		if err != nil || !entry.IsDir() || !strings.Contains(entry.Name(), id) {
			return err
		}
		for file, value := range want {
			raw, err := os.ReadFile(filepath.Join(path, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if read++; strings.TrimSpace(string(raw)) != value {
				return fmt.Errorf("%s is %q, want %s", file, raw, value)
			}
		}
		return fs.SkipDir
	})
	if err == nil && read != 2 {
		err = fmt.Errorf("%d files with its limits were found, want 2", read)
	}
	return err
}

func quantity(amount string) *resource.Quantity { return new(resource.MustParse(amount)) }

// inPlaceInitImage: with the annotation, another image of an init container changes only what its pods say; nothing is started.
func inPlaceInitImage(t *testing.T) {
	k := advancedInPlace()
	k.annotations = map[string]string{everynode.InPlaceInitImages: "true"}
	s := newStage(t, k)
	s.run(withSide, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "init", Image: one, Args: []string{"cat", "/etc/hosts"}}}
	})
	before := s.pods()
	survived := s.inFlight(sidePort)
	recorder := s.ObserveAdvanced(set)
	generation := s.patch(jsonPatch, fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/initContainers/0/image", "value": %q}]`, two))
	s.Wait("all pods say "+two, harness.RolledOut(set, generation, count), harness.EachPod(set, "with the image", func(pod *corev1.Pod) bool {
		return pod.Spec.InitContainers[0].Image == two
	}))
	s.keptPods(before)
	s.sameContainers(before)
	survived()
	s.ran(set, "v1")
	s.Judge(recorder)
}

// inPlaceMissingImage: where changes wait for images, one that cannot be pulled costs nothing: the container runs on. Where they do not, it costs the
// containers that the budget allows. Either way the other containers notice nothing, and the old image comes back.
func inPlaceMissingImage(t *testing.T) {
	t.Run("Wait", func(t *testing.T) {
		s := newStage(t, advancedInPlace())
		s.Poll("an agent works on each node, or nothing waits", func() error { return agentsReady(s) })
		s.run(withSide)
		before := s.pods()
		survived := s.inFlight(sidePort)
		s.order(missing)
		s.Wait("the wait is reported", harness.HasEvent(set, corev1.EventTypeNormal, "WaitingForImage"))
		s.Poll("an agent was refused the image", func() error {
			if !slices.ContainsFunc(s.requests(), func(r request) bool { return r.Reference == "missing" }) {
				return errors.New("the registry was not asked for it")
			}
			return nil
		})
		s.roll(one)
		s.keptPods(before)
		s.sameContainers(before)
		survived()
		s.ran(set, "v1")
	})
	t.Run("NoWait", func(t *testing.T) {
		k := advancedInPlace()
		k.annotations = map[string]string{everynode.WaitForImage: "false"}
		s := newStage(t, k)
		s.run(withSide)
		before := s.pods()
		survived := s.inFlight(sidePort)
		s.order(missing)
		s.Wait("a container has no image", waits(missing, "ErrImagePull", "ImagePullBackOff"))
		asked := time.Now()
		s.roll(one)
		t.Logf("all nodes had the good image %v after the undo", time.Since(asked))
		s.keptPods(before)
		survived()
		var hit int
		for _, node := range s.Nodes {
			if len(s.journal(node)) > 2 { // a start of each container, and nothing else
				hit++
			}
		}
		if hit != 1 {
			t.Errorf("%d nodes lost their container, want the one of the budget", hit)
		}
		s.ran(side, "v1")
	})
}
