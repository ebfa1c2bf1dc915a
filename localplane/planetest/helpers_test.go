// SPDX-License-Identifier: Apache-2.0

package planetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/localplane/simkubelet"
)

// program is the built localplane, or the test is skipped.
func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv(localplane.EnvProgram)
	if path == "" {
		path = filepath.Join("..", "..", "bin", "localplane")
	}
	if testing.Short() {
		t.Skip("SKIPPED: starting a control plane takes longer than -short allows")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abs); err != nil {
		t.Skipf("SKIPPED: there is no program %s: build it with `make build`", abs)
	}
	return abs
}

// quick is a profile whose delays can be seen but not felt.
func quick() *simkubelet.Profile {
	p := simkubelet.Realistic()
	p.ImagePull, p.ContainerStart, p.ContainerReady = 200*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond
	p.ContainerStop, p.PodStop, p.ImageReport = 50*time.Millisecond, 100*time.Millisecond, 500*time.Millisecond
	return &p
}

// grace is how long a node may be silent in these tests.
const grace = 6 * time.Second

func options(t *testing.T) localplane.Options {
	t.Helper()
	return localplane.Options{
		Dir:        filepath.Join(t.TempDir(), "plane"),
		Dialects:   []string{localplane.NoDialects},
		Sim:        quick(),
		Kubernetes: localplane.Kubernetes{NodeMonitorGracePeriod: grace},
		Programs:   localplane.Programs{Localplane: program(t)},
		Progress:   progress{t},
	}
}

type progress struct{ t *testing.T }

func (p progress) Write(b []byte) (int, error) {
	p.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// start starts a plane that the test stops.
func start(t *testing.T, o localplane.Options) (*localplane.Plane, kubernetes.Interface) {
	t.Helper()
	plane, err := localplane.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(plane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return plane, client
}

// eventually asks until there is no error any more. The time is what is enough on an idle machine; a busy one may take a few times as long.
func eventually(t *testing.T, timeout time.Duration, what string, ask func() error) {
	t.Helper()
	began := time.Now()
	for {
		err := ask()
		if err == nil {
			t.Logf("%s after %s", what, time.Since(began).Round(10*time.Millisecond))
			return
		}
		const busy = 4
		if time.Since(began) > busy*timeout {
			t.Fatalf("waited %s in vain for %s: %v", busy*timeout, what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

const namespace = "default"

func daemonSet(name, image string) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: image}}},
			},
		},
	}
}

func pods(t *testing.T, client kubernetes.Interface, app string) []v1.Pod {
	t.Helper()
	list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// podsReady waits until there are n pods, each with this image and Ready.
func podsReady(t *testing.T, client kubernetes.Interface, app string, n int, image string) {
	t.Helper()
	eventually(t, 60*time.Second, fmt.Sprintf("%d pods of %s ready", n, image), func() error {
		list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return err
		}
		good := 0
		for i := range list.Items {
			pod := &list.Items[i]
			if pod.Spec.Containers[0].Image == image && podReady(pod) && pod.DeletionTimestamp == nil {
				good++
			}
		}
		if good != n || len(list.Items) != n {
			return fmt.Errorf("%d of %d pods are", good, len(list.Items))
		}
		return nil
	})
}

func podReady(pod *v1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func podOn(t *testing.T, client kubernetes.Interface, app, node string) *v1.Pod {
	t.Helper()
	for _, pod := range pods(t, client, app) {
		if pod.Spec.NodeName == node {
			return &pod
		}
	}
	t.Fatalf("there is no pod of %s on %s", app, node)
	return nil
}

func nodeReady(t *testing.T, client kubernetes.Interface, name string) v1.ConditionStatus {
	t.Helper()
	node, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status
		}
	}
	return v1.ConditionUnknown
}
