// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/cri/fake"
	"everynode.dev/everynode/test/harness"
)

// serve starts a fake runtime on the node.
func (n *node) serve(r *fake.Runtime) {
	n.t.Helper()
	if err := r.Start(n.socket); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(r.Stop)
}

func pulledNames(r *fake.Runtime) []string {
	names := []string{}
	for _, p := range r.Pulls() {
		names = append(names, p.GetImage().GetImage())
	}
	slices.Sort(names)
	return names
}

func tags(names ...string) v1beta1.ImageSpec {
	spec := v1beta1.ImageSpec{}
	for _, name := range names {
		spec.Tags = append(spec.Tags, v1beta1.ImageTagSpec{Tag: name})
	}
	return spec
}

func limited(tag string, retries int32) v1beta1.ImageSpec {
	return v1beta1.ImageSpec{Tags: []v1beta1.ImageTagSpec{{Tag: tag, PullPolicy: &v1beta1.ImageTagPullPolicy{BackoffLimit: &retries}}}}
}

func TestSmokeImagesArePulledAndReported(t *testing.T) {
	n := newNode(t, map[string]v1beta1.ImageSpec{
		"r.io/good": {
			Tags:          []v1beta1.ImageTagSpec{{Tag: "v1", Version: 7}},
			SandboxConfig: &v1beta1.SandboxConfig{Labels: map[string]string{"app": "x"}, Annotations: map[string]string{"note": "y"}},
		},
		"r.io/there": tags("v1"),
		"r.io/bad":   limited("v1", 1),
	})
	runtime := fake.New("r.io/there:v1")
	runtime.Answer = func(_ context.Context, r *runtimeapi.PullImageRequest) error {
		if strings.Contains(r.GetImage().GetImage(), "bad") {
			return errors.New("manifest unknown")
		}
		return nil
	}
	n.serve(runtime)
	n.begin()
	good := n.await("r.io/good", "v1", v1beta1.ImagePhaseSucceeded, "")
	if good.Version != 7 || good.Progress != 100 || good.StartTime == nil || good.CompletionTime == nil || good.ImageID != "r.io/good@id-of-r.io/good:v1" {
		t.Errorf("the status is %+v", good)
	}
	n.await("r.io/there", "v1", v1beta1.ImagePhaseSucceeded, "")
	n.await("r.io/bad", "v1", v1beta1.ImagePhaseFailed, "manifest unknown")
	status, err := n.status()
	if err != nil || status.Desired != 3 || status.Succeeded != 2 || status.Failed != 1 || status.Pulling != 0 || status.Waiting != 0 {
		t.Errorf("the status is %+v %v", status, err)
	}
	if got, want := pulledNames(runtime), []string{"r.io/bad:v1", "r.io/bad:v1", "r.io/good:v1"}; !slices.Equal(got, want) {
		t.Errorf("pulled %v, not %v", got, want)
	}
	for _, p := range runtime.Pulls() {
		if s := p.GetSandboxConfig(); p.GetImage().GetImage() == "r.io/good:v1" && (s.Labels["app"] != "x" || s.Annotations["note"] != "y") {
			t.Errorf("the sandbox config is %v", s)
		}
	}
	if message := n.event("PullImageFailed"); !strings.Contains(message, "r.io/bad:v1 manifest unknown") {
		t.Errorf("the event says %q", message)
	}
	n.event("PullImageSucceed")
	n.edit(`{"spec":{"images":{"r.io/bad":{"tags":[{"tag":"v1","version":1,"pullPolicy":{"backoffLimit":0}}]},"r.io/good":null}}}`)
	n.until("a new version is tried, and what nobody wants is forgotten", func(s v1beta1.NodeImageStatus) bool {
		bad := s.ImageStatuses["r.io/bad"].Tags
		return s.Desired == 2 && len(s.ImageStatuses) == 2 && bad[0].Version == 1 && bad[0].Phase == v1beta1.ImagePhaseFailed
	})
	n.terminate()
}

func TestAgentThatIsKilledInMidPullGoesOn(t *testing.T) {
	n := newNode(t, map[string]v1beta1.ImageSpec{"r.io/slow": tags("v1"), "r.io/quick": tags("v1")})
	runtime := fake.New()
	release, entered := make(chan struct{}), make(chan struct{}, 10)
	runtime.Answer = func(ctx context.Context, r *runtimeapi.PullImageRequest) error {
		if !strings.Contains(r.GetImage().GetImage(), "slow") {
			return nil
		}
		entered <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	n.serve(runtime)
	n.begin()
	<-entered
	n.await("r.io/quick", "v1", v1beta1.ImagePhaseSucceeded, "")
	before := n.await("r.io/slow", "v1", v1beta1.ImagePhasePulling, "")
	n.kill()
	n.begin()
	<-entered
	close(release)
	after := n.await("r.io/slow", "v1", v1beta1.ImagePhaseSucceeded, "")
	if !after.StartTime.Equal(before.StartTime) {
		t.Errorf("it started at %v, and then at %v", before.StartTime, after.StartTime)
	}
	if got, want := pulledNames(runtime), []string{"r.io/quick:v1", "r.io/slow:v1", "r.io/slow:v1"}; !slices.Equal(got, want) {
		t.Errorf("pulled %v, not %v", got, want)
	}
}

// What one agent has told, the next one counts on from: no image gets more tries than allowed, and what has ended stays so, also when
// it is of policy Always and would have to be asked for again.
func TestTriesAndEndsOutliveTheAgent(t *testing.T) {
	n := newNode(t, map[string]v1beta1.ImageSpec{
		"r.io/bad":    limited("v1", 3),
		"r.io/always": {Tags: []v1beta1.ImageTagSpec{{Tag: "v1", Version: 1, ImagePullPolicy: v1beta1.PullAlways}}},
	})
	runtime := fake.New("r.io/always:v1")
	third := make(chan struct{})
	var tries atomic.Int32
	runtime.Answer = func(ctx context.Context, r *runtimeapi.PullImageRequest) error {
		if !strings.Contains(r.GetImage().GetImage(), "bad") {
			return nil
		}
		if tries.Add(1) == 3 {
			close(third)
			<-ctx.Done()
		}
		return errors.New("manifest unknown")
	}
	n.serve(runtime)
	n.begin()
	<-third
	n.await("r.io/bad", "v1", v1beta1.ImagePhasePulling, "try 2 of 4 failed: manifest unknown")
	n.await("r.io/always", "v1", v1beta1.ImagePhaseSucceeded, "")
	n.kill()
	n.begin()
	n.await("r.io/bad", "v1", v1beta1.ImagePhaseFailed, "manifest unknown")
	always, bad := "r.io/always:v1", "r.io/bad:v1"
	// The third try was broken off by the end of the agent, so it was begun twice.
	if got, want := pulledNames(runtime), []string{always, bad, bad, bad, bad, bad}; !slices.Equal(got, want) {
		t.Errorf("pulled %v, not %v", got, want)
	}
	n.edit(`{"spec":{"images":{"r.io/always":{"tags":[{"tag":"v1","version":2,"imagePullPolicy":"Always"}]},"r.io/bad":null}}}`)
	n.until("a new version is asked for", func(s v1beta1.NodeImageStatus) bool {
		tags := s.ImageStatuses["r.io/always"].Tags
		return s.Desired == 1 && tags[0].Version == 2 && tags[0].Phase == v1beta1.ImagePhaseSucceeded
	})
	if got := pulledNames(runtime); len(got) != 7 {
		t.Errorf("pulled %v", got)
	}
}

// One image has many names, and is pulled once.
func TestOneImageOfManyNamesIsPulledOnce(t *testing.T) {
	names := []string{"nginx", "library/nginx", "docker.io/nginx", "docker.io/library/nginx", "index.docker.io/library/nginx"}
	images := map[string]v1beta1.ImageSpec{}
	for _, name := range names {
		images[name] = tags("latest")
	}
	n := newNode(t, images)
	runtime := fake.New()
	n.serve(runtime)
	n.begin()
	for _, name := range names {
		n.await(name, "latest", v1beta1.ImagePhaseSucceeded, "")
	}
	if got, want := pulledNames(runtime), []string{"docker.io/library/nginx:latest"}; !slices.Equal(got, want) {
		t.Errorf("pulled %v, not %v", got, want)
	}
}

func TestRuntimeAndAPIServerMayGoAway(t *testing.T) {
	n := newNode(t, map[string]v1beta1.ImageSpec{"r.io/one": limited("v1", 0)})
	n.begin() // before the runtime is there
	n.await("r.io/one", "v1", v1beta1.ImagePhaseWaiting, "the container runtime does not answer")
	entered := make(chan struct{}, 10)
	first := fake.New()
	first.Answer = func(ctx context.Context, _ *runtimeapi.PullImageRequest) error {
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	n.serve(first)
	<-entered
	first.Stop()
	second := fake.New()
	release := make(chan struct{})
	second.Answer = func(context.Context, *runtimeapi.PullImageRequest) error {
		entered <- struct{}{}
		<-release
		return nil
	}
	n.serve(second)
	<-entered
	if err := plane.KillComponent(t.Context(), "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	close(release)
	for deadline := time.Now().Add(patience); !n.logged(`phase="Succeeded"`); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("without the API server nothing is pulled")
		}
	}
	if err := plane.StartComponent(t.Context(), "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	n.await("r.io/one", "v1", v1beta1.ImagePhaseSucceeded, "")
	if len(second.Pulls()) != 1 {
		t.Errorf("pulled %v", pulledNames(second))
	}
}

func TestNoMorePullsAtOnceThanAllowed(t *testing.T) {
	all := v1beta1.ImageSpec{}
	for i := range 30 {
		all.Tags = append(all.Tags, v1beta1.ImageTagSpec{Tag: fmt.Sprintf("v%d", i)})
	}
	n := newNode(t, map[string]v1beta1.ImageSpec{"r.io/many": all}, "--max-concurrent-pulls", "4")
	runtime := fake.New()
	runtime.Answer = func(ctx context.Context, _ *runtimeapi.PullImageRequest) error {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	n.serve(runtime)
	n.begin()
	for i := range 30 {
		n.await("r.io/many", fmt.Sprintf("v%d", i), v1beta1.ImagePhaseSucceeded, "")
	}
	if runtime.Most() != 4 || len(runtime.Pulls()) != 30 {
		t.Errorf("at most %d at once, %d in all", runtime.Most(), len(runtime.Pulls()))
	}
}

// What the agent may cost a node.
const (
	mostMemory = 15_000_000
	mostDisk   = 40_000_000
)

// The agent knows its own NodeImage and the pods of its own node and no others, so it stays small in a cluster of any size.
func TestAgentIsSmall(t *testing.T) {
	program := filepath.Join(harness.BinDir(), agentProgram)
	info, err := os.Stat(program)
	if err != nil || info.Size() > mostDisk {
		t.Errorf("the program has %d bytes (%v), and may have %d", info.Size(), err, mostDisk)
	}
	if needs := interpreter(t, program); needs != "" {
		t.Errorf("the program is not static: it needs %s", needs)
	}
	crowd(t)
	n := newAPINode(t)
	n.edit(`{"spec":{"images":{"r.io/app":{"tags":[{"tag":"v1"},{"tag":"v2"},{"tag":"v3"}]}}}}`)
	pod := newPod(t, newSet(t, "r.io/app:v2"), n.name)
	n.serve(fake.New())
	n.begin()
	n.await("r.io/app", "v3", v1beta1.ImagePhaseSucceeded, "")
	n.untilAnswer("GET", "/pods", http.StatusOK, pod.Name)
	// The mapped program is page cache, which the kernel reclaims.
	own, all := memory(t, n.agent.Process.Pid, "RssAnon:"), memory(t, n.agent.Process.Pid, "VmRSS:")
	t.Logf("%d bytes on disk, %.1f MiB of its own in memory, %.1f MiB with the mapped program", info.Size(), float64(own)/(1<<20), float64(all)/(1<<20))
	if own > mostMemory {
		t.Errorf("it takes %d bytes of memory, and may take %d", own, mostMemory)
	}
}

// crowd makes the NodeImages of other nodes and pods on them. The ones and the others are larger than the memory of an agent.
func crowd(t *testing.T) {
	t.Helper()
	const nodes, each, podsEach, ofPod = 20, 1200 << 10, 6, 230 << 10
	large := &v1beta1.SandboxConfig{Annotations: map[string]string{"note": strings.Repeat("x", each)}}
	pods := plane.client.CoreV1().Pods(metav1.NamespaceDefault)
	for range nodes {
		other := newNode(t, map[string]v1beta1.ImageSpec{"r.io/app": {Tags: tags("v1").Tags, SandboxConfig: large}})
		t.Cleanup(func() {
			_ = plane.images().Delete(context.WithoutCancel(t.Context()), other.name, metav1.DeleteOptions{})
		})
		for i := range podsEach {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("%s-%d", other.name, i), Labels: map[string]string{"of": "crowd"},
					Annotations: map[string]string{"note": strings.Repeat("x", ofPod)},
				},
				Spec: corev1.PodSpec{NodeName: other.name, Containers: []corev1.Container{{Name: "main", Image: "r.io/app:v1"}}},
			}
			if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() {
		now := int64(0)
		_ = pods.DeleteCollection(context.WithoutCancel(t.Context()), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{LabelSelector: "of=crowd"})
	})
}

// interpreter is what a program needs beside itself to be started; nothing when it is static.
func interpreter(t *testing.T, program string) string {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if file.Section(".interp") != nil || file.Section(".dynamic") != nil {
		libraries, _ := file.ImportedLibraries()
		return fmt.Sprintf("a loader and %v", libraries)
	}
	return ""
}

// memory is a line about memory of what the kernel tells of a process. RssAnon is the memory that is its own: files that are mapped
// can be dropped at any time.
func memory(t *testing.T, pid int, line string) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Split(string(data), "\n") {
		if rest, ok := strings.CutPrefix(text, line); ok {
			kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	t.Fatalf("the kernel does not tell %s of a process", line)
	return 0
}
