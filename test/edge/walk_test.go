// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/test/observe"
)

const (
	oldImage, newImage = "nginx:1.19.4", "nginx:1.19.5"
	walkedNodes        = 3
)

// Those that the walk cuts, and the one that stays.
var (
	reachable = []string{"node-0001"}
	away      = []string{"node-0002", "node-0003"}
)

// TestSmokeWalkThrough is the walk-through of OpenYurt's page on its upgrade models, with the commands of docs/edge.md.
func TestSmokeWalkThrough(t *testing.T) {
	w := newWalk(t, "")
	w.advancedRollingUpdate()
	w.ota()
}

// TestWalkThroughNextToNative goes on to what docs/edge.md shows beyond that page.
func TestWalkThroughNextToNative(t *testing.T) {
	w := newWalk(t, "")
	w.advancedRollingUpdate()
	w.ota()
	w.imagesFirst()
	w.decisionWhileCut()
}

// TestWalkThroughNextToUpstream is the same where kube-controller-manager's own controller keeps the pods.
func TestWalkThroughNextToUpstream(t *testing.T) {
	w := newWalk(t, " --native-controller")
	w.advancedRollingUpdate()
	w.ota()
}

// TestSamplesAreOpenYurts holds the samples to the manifests of OpenYurt's page, byte for byte.
func TestSamplesAreOpenYurts(t *testing.T) {
	for _, name := range []string{"advanced-rolling-update.yaml", "ota.yaml"} {
		want, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(filepath.Join("..", "..", "docs", "samples", "edge", name))
		if err != nil || !bytes.Equal(have, want) {
			t.Errorf("the sample %s differs from that of OpenYurt: %v", name, err)
		}
	}
}

func (w *walk) advancedRollingUpdate() {
	w.types("kubectl apply -f docs/samples/edge/advanced-rolling-update.yaml")
	w.until("kubectl get pods -o wide | grep nginx-daemonset", running(walkedNodes))
	first := w.pods()
	recorder := w.observe()

	w.types("bin/localplane node cut node-0002 node-0003")
	w.until("kubectl get nodes", statuses("Ready", reachable), statuses("NotReady", away))
	w.types("kubectl set image daemonset/nginx-daemonset nginx=nginx:1.19.5")
	w.until("kubectl get pods -o wide | grep nginx-daemonset", running(walkedNodes), without(first[reachable[0]].Name),
		shows(first[away[0]].Name), shows(first[away[1]].Name))
	w.until("kubectl describe pods -l app=nginx | grep ' Image:'", images(1, newImage), images(2, oldImage))

	w.types("bin/localplane node heal node-0002 node-0003")
	w.until("kubectl get nodes", statuses("Ready", append(away, reachable...)))
	w.until("kubectl get pods -o wide | grep nginx-daemonset", running(walkedNodes), without(first[away[0]].Name), without(first[away[1]].Name))
	w.until("kubectl describe pods -l app=nginx | grep ' Image:'", images(walkedNodes, newImage))

	w.deleted(recorder, first[reachable[0]], first[away[0]], first[away[1]])
	if err := recorder.JudgeEdge(observe.EdgeRules{Limit: 1, Blame: blameDefault}).Err(); err != nil {
		w.t.Errorf("observed from outside: %v", err)
	}
	w.types("kubectl delete daemonset nginx-daemonset")
	w.until("kubectl get pods", shows("No resources found"))
}

func (w *walk) ota() {
	w.types("kubectl apply -f docs/samples/edge/ota.yaml")
	w.until("kubectl get pods -o wide | grep nginx-daemonset", running(walkedNodes))
	first := w.pods()
	recorder := w.observe()
	w.pod = first[away[0]].Name
	w.until("kubectl describe pods NAME", row("PodNeedUpgrade", "False"))
	w.types("kubectl set image daemonset/nginx-daemonset nginx=nginx:1.19.5")
	w.until("kubectl describe pods NAME", row("PodNeedUpgrade", "True"))

	w.serve("bin/localplane node api --listen 127.0.0.1:10267 node-0002")
	w.answers("curl 127.0.0.1:10267/pods", 200, `"name":"`+w.pod+`"`)
	if body := w.answers(upgrade, 200, ""); body != "Start updating pod default/"+w.pod {
		w.t.Errorf("the upgrade is answered %q", body)
	}
	w.until("kubectl get pods -o wide | grep nginx-daemonset", running(walkedNodes), without(w.pod),
		shows(first[reachable[0]].Name), shows(first[away[1]].Name))
	w.pod = w.pods()[away[0]].Name
	w.until("kubectl describe pods NAME", images(1, newImage), row("PodNeedUpgrade", "False"))
	w.until("kubectl describe pods -l app=nginx | grep ' Image:'", images(1, newImage), images(2, oldImage))
	w.deleted(recorder, first[away[0]])
}

// observe records from the API server's watch what happens to the pods.
func (w *walk) observe() *observe.Recorder {
	w.t.Helper()
	recorder, err := observe.Record(w.t.Context(), w.Client, "default", "nginx-daemonset")
	if err != nil {
		w.t.Fatal(err)
	}
	return recorder
}

// deleted ends a recording: these pods were deleted, each once, and no other.
func (w *walk) deleted(recorder *observe.Recorder, want ...*corev1.Pod) {
	w.t.Helper()
	if _, err := recorder.Finish(w.t.Context()); err != nil {
		w.t.Fatalf("the observation itself failed: %v", err)
	}
	var have, names []string
	for _, event := range recorder.Log() {
		if pod, is := event.Object.(*corev1.Pod); is && event.Type == watch.Deleted {
			have = append(have, pod.Name+" "+string(pod.UID))
		} else if is && pod.DeletionTimestamp != nil {
			names = append(names, pod.Name+" "+string(pod.UID))
		}
	}
	expected := make([]string, 0, len(want))
	for _, pod := range want {
		expected = append(expected, pod.Name+" "+string(pod.UID))
	}
	slices.Sort(have)
	slices.Sort(expected)
	if !slices.Equal(have, expected) {
		w.t.Errorf("observed from outside: deleted %v, want %v", have, expected)
	}
	for _, name := range names {
		if !slices.Contains(expected, name) {
			w.t.Errorf("observed from outside: %s was asked to go", name)
		}
	}
}

// A look judges what a command has printed.
type look func(out string) error

func shows(text string) look {
	return func(out string) error {
		if !strings.Contains(out, text) {
			return fmt.Errorf("it does not show %q", text)
		}
		return nil
	}
}

func without(text string) look {
	return func(out string) error {
		if strings.Contains(out, text) {
			return fmt.Errorf("it still shows %q", text)
		}
		return nil
	}
}

// matches is met when that many lines match.
func matches(count int, pattern string) look {
	line := regexp.MustCompile("(?m)" + pattern)
	return func(out string) error {
		if have := len(line.FindAllString(out, -1)); have != count {
			return fmt.Errorf("%d lines are like %s, want %d", have, pattern, count)
		}
		return nil
	}
}

// running is met when there are that many pods, and all run.
func running(count int) look {
	all, run := matches(count, `^nginx-daemonset-`), matches(count, `^nginx-daemonset-\S+ +1/1 +Running `)
	return func(out string) error { return first(all(out), run(out)) }
}

func images(count int, image string) look {
	return matches(count, `^ +Image: +`+regexp.QuoteMeta(image)+`$`)
}

// row is a condition, as kubectl describes it.
func row(kind, status string) look { return matches(1, `^  `+kind+` +`+status+` *$`) }

func statuses(status string, nodes []string) look {
	return matches(len(nodes), `^(`+strings.Join(nodes, "|")+`) +`+status+` `)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
