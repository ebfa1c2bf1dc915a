// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/test/harness"
)

// pageFirstDay is the page that TestSmokeFirstDay types.
const pageFirstDay = "docs/first-day.md"

// canaryLimit is what the page promises from helm install to the first canary. It takes half a minute; images come from a registry on the same machine.
const canaryLimit = 5 * time.Minute

// sampleFile and policyFile are the samples of the page, and the rest are their images.
const (
	sampleFile = "docs/samples/first-day.yaml"
	policyFile = "docs/samples/first-day-policy.yaml"
	sampleOne  = "registry.k8s.io/pause:3.10"
	sampleTwo  = "registry.k8s.io/pause:3.10.1"
)

// newcomer is a user on the first day, who types what the page says.
type newcomer struct {
	*harness.Desk
	t *testing.T
	c *harness.Cluster
}

// usual starts a cluster as it usually is: three real nodes, with the DaemonSet controller of Kubernetes and without Everynode.
func usual(t *testing.T) *harness.Cluster {
	t.Helper()
	return harness.Own(t, harness.Options{RealNodes: count, Controller: harness.Native, Manifests: []fs.FS{}})
}

// TestSmokeFirstDay types the page for the first day, with Helm's own program: from an empty cluster to a canary, to all nodes, to a rollout policy, and to a cluster
// without Everynode.
func TestSmokeFirstDay(t *testing.T) {
	c := usual(t)
	push(t, c, "v0.1.0")
	n := &newcomer{Desk: harness.NewDesk(t), t: t, c: c}
	n.Client = c.Client
	n.prepare()
	checks := map[string]func(out string) error{
		"kubectl everynode doctor --before-install": says(" 0 failed"),
		"helm install ":  says("STATUS: deployed"),
		"helm test ":     says("Succeeded"),
		"kubectl wait ":  says("condition met"),
		"helm uninstall": says("uninstalled"),
	}
	rolls := []func(){func() { n.runs("sample", 1, 2) }, func() { n.runs("sample", count, 0) }}
	waves := []func(){func() { n.runs("waves", 0, count) }, func() { n.runs("waves", count, 0) }}
	var began, rolled time.Time
	for _, command := range harness.ReadPage(t, pageFirstDay).Commands {
		if strings.HasPrefix(command.Text, "helm install ") {
			began = time.Now()
		}
		n.follows(command, checks)
		if command.Text == "kubectl everynode status sample --exit-status" {
			if rolled.IsZero() {
				rolled = time.Now()
			}
			rolls[0]()
			rolls = rolls[1:]
		}
		if command.Text == "kubectl everynode status daemonset/waves --exit-status" {
			waves[0]()
			waves = waves[1:]
		}
	}
	if len(rolls)+len(waves) > 0 {
		t.Errorf("%s waits for %d rollouts less than this test", pageFirstDay, len(rolls)+len(waves))
	}
	for begins := range checks {
		t.Errorf("%s has no command %q", pageFirstDay, begins)
	}
	if took := rolled.Sub(began); took > canaryLimit {
		t.Errorf("from helm install to the rolled canary: %s, want at most %s", took.Round(time.Second), canaryLimit)
	} else {
		t.Logf("from helm install to the rolled canary: %s", took.Round(time.Second))
	}
}

// TestFirstDayChoosesANodeWithAPod: on many clusters, the first node has a taint that the sample does not tolerate.
func TestFirstDayChoosesANodeWithAPod(t *testing.T) {
	for _, command := range harness.ReadPage(t, pageFirstDay).Commands {
		if strings.HasSuffix(command.Text, " canary=true") && strings.HasPrefix(command.Text, "kubectl label ") && !strings.Contains(command.Text, "$(kubectl get pods -l app=sample ") {
			t.Errorf("line %d of %s chooses a node that may have no pod: %s", command.Line, pageFirstDay, command.Text)
		}
	}
}

// follows types a command of the page, which has to print what the page shows, and what the check for its beginning wants.
func (n *newcomer) follows(command harness.PageCommand, checks map[string]func(out string) error) {
	n.t.Helper()
	if command.Untyped != "" {
		n.t.Errorf("line %d of %s is not typed: %s", command.Line, pageFirstDay, command.Text)
		return
	}
	out := n.Type(n.names(command.Text))
	var errs []error
	for begins, check := range checks {
		if strings.HasPrefix(command.Text, begins) {
			errs = append(errs, check(out))
			delete(checks, begins)
		}
	}
	for _, line := range command.Shows {
		errs = append(errs, says(line)(out))
	}
	if err := errors.Join(errs...); err != nil {
		n.t.Errorf("line %d of %s:\n$ %s\n%s%v", command.Line, pageFirstDay, command.Text, out, err)
	}
}

// prepare puts on the desk what the user has: the chart, a sample with images that the nodes can pull, and the programs.
func (n *newcomer) prepare() {
	n.t.Helper()
	charts, err := filepath.Abs(filepath.Join("..", "..", "charts"))
	if err != nil {
		n.t.Fatal(err)
	}
	for _, file := range []string{sampleFile, policyFile} {
		sample, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil || !strings.Contains(string(sample), "image: "+sampleOne+"\n") {
			n.t.Fatalf("the sample %s has no image %s: %v", file, sampleOne, err)
		}
		if err := os.WriteFile(n.Path(n.names(file)), []byte(n.names(string(sample))), 0o600); err != nil {
			n.t.Fatal(err)
		}
	}
	// The kubectl of the desk looks for a plane there.
	plane := filepath.Dir(n.c.Plane.Kubeconfig())
	err = errors.Join(os.Mkdir(n.Path(".localplane"), 0o755), os.Symlink(plane, n.Path(filepath.Join(".localplane", "default"))), os.Symlink(charts, n.Path("charts")))
	if err != nil {
		n.t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(harness.BinDir(), "helm")); err != nil {
		n.t.Fatalf("%v: make test SUITE=install builds what is needed", err)
	}
	n.Type("export KUBECONFIG=" + n.c.Plane.Kubeconfig() + " PATH=$PWD/bin:$PATH HELM_CACHE_HOME=$PWD/helm HELM_CONFIG_HOME=$PWD/helm HELM_DATA_HOME=$PWD/helm")
}

// names replaces the registry and the images of the page by those of the plane.
func (n *newcomer) names(text string) string {
	return strings.NewReplacer("registry.example/everynode", localplane.RegistryHost, sampleTwo, image("v2"), sampleOne, image("v1"), sampleFile, "sample.yaml", policyFile, "waves.yaml").Replace(text)
}

func says(text string) func(string) error {
	return func(out string) error {
		if !strings.Contains(out, text) {
			return fmt.Errorf("it should say %q", text)
		}
		return nil
	}
}

// runs fails unless that many nodes have a ready pod of the app with the new image, and that many one with the old image.
func (n *newcomer) runs(app string, fresh, old int) {
	n.t.Helper()
	var found map[string]int
	all := 0
	// The API server may have yet to remove a pod whose containers have ended.
	err := wait.PollUntilContextTimeout(n.t.Context(), time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		pods, err := n.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return false, err
		}
		found, all = map[string]int{}, len(pods.Items)
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && harness.Ready(pod) {
				found[pod.Spec.Containers[0].Image]++
			}
		}
		return found[image("v2")] == fresh && found[image("v1")] == old && all == fresh+old, nil
	})
	if err != nil {
		n.t.Errorf("ready pods of %s by image are %v of %d, want %d new and %d old: %v", app, found, all, fresh, old, err)
	}
}
