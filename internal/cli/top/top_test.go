// SPDX-License-Identifier: Apache-2.0

package top_test

import (
	"flag"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/cli/top"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

// objects are four sets on the same nodes: one of each kind in the middle of a roll, one that is done, and one that is refused.
func objects(t *testing.T) []runtime.Object {
	t.Helper()
	rolls := []fakecluster.Roll{
		{Name: "agent", Letters: "uuatO-oooon"},
		{Name: "proxy", Advanced: true, Letters: "uuuuooooooo", Spec: map[string]any{"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"paused": true}}}},
		{Name: "done", Letters: "uuuuuuuuuuu"},
		{Name: "wrong", Letters: "ooooooooooo", Spec: map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "x"}}}},
	}
	all := rolls[0].Nodes()
	for _, r := range rolls {
		all = append(append(append(all, r.Pods()...), r.Revisions(t)...), r.Object())
	}
	return all
}

func TestScreens(t *testing.T) {
	for name, c := range map[string]struct {
		line    string
		without bool
	}{
		"namespace":   {line: ""},
		"all":         {line: "-A -o wide"},
		"in-flight":   {line: "--in-flight"},
		"yaml":        {line: "-o yaml --in-flight"},
		"without-crd": {line: "-A", without: true},
		"none":        {line: "-n other"},
		"none-at-all": {line: "-A --in-flight", without: true},
	} {
		t.Run(name, func(t *testing.T) {
			all := objects(t)
			if name == "none-at-all" {
				all = fakecluster.Roll{Name: "done", Letters: "uu"}.Objects(t)
			}
			cluster := fakecluster.New(t, all...)
			if c.without {
				cluster.WithoutKruise()
			}
			if name == "none" {
				cluster.Options.Given.Namespace = "other"
			}
			if err := cluster.Run(t, top.New, strings.Fields(c.line)...); err != nil {
				t.Fatal(err)
			}
			fakecluster.Golden(t, *update, name+".txt", cluster.Out.String())
		})
	}
}

// No rollout waits for a node that is gone: neither does its pod hide what is in the way, nor does it keep the owners from having the last say.
func TestNodeThatIsGone(t *testing.T) {
	gone := func(roll fakecluster.Roll) []runtime.Object {
		return slices.DeleteFunc(roll.Objects(t), func(o runtime.Object) bool {
			node, ok := o.(*corev1.Node)
			return ok && node.Name == "node-1"
		})
	}
	ota := fakecluster.Roll{
		Name: "edge", Letters: "ooo", Annotations: map[string]string{"apps.openyurt.io/update-strategy": "OTA"},
		Spec: map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}},
	}
	for want, roll := range map[string]fakecluster.Roll{
		"up to owners   wait-node-owner 2": ota,
		"wait-terminating 1":               {Name: "agent", Letters: "oto"},
	} {
		cluster := fakecluster.New(t, gone(roll)...)
		if err := cluster.Run(t, top.New); err != nil {
			t.Fatal(err)
		}
		if got := cluster.Out.String(); !strings.Contains(got, want) {
			t.Errorf("it says not %q:\n%s", want, got)
		}
	}
}

// What blocks a rollout is a pod that does not start, with the cause, and not a node that is not ready: the rollout continues without that one.
func TestWhatBlocks(t *testing.T) {
	for want, c := range map[string]struct{ letters, reason string }{
		"wait-available 1 (ImagePullBackOff)": {"uaTooo", "ErrImagePull"},
		"wait-available 1\n":                  {"uaToOo", ""},
		"wait-terminating 1 (not ready)":      {"uT", ""},
	} {
		objects := fakecluster.Roll{Name: "agent", Letters: c.letters}.Objects(t)
		for _, o := range objects {
			if pod, is := o.(*corev1.Pod); is && c.reason != "" && strings.HasPrefix(pod.Name, "agent-node-2") {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: c.reason}}}}
			}
		}
		cluster := fakecluster.New(t, objects...)
		if err := cluster.Run(t, top.New); err != nil {
			t.Fatal(err)
		}
		if got := cluster.Out.String(); !strings.Contains(got, want) {
			t.Errorf("it does not say %q:\n%s", want, got)
		}
	}
}

// A roll that is stuck behind the first node has made no pod to count from: it stands still since its revision was made.
func TestNeverMoved(t *testing.T) {
	one := map[string]any{"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(1)}}}
	cluster := fakecluster.New(t, fakecluster.Roll{Name: "agent", Letters: "Too", Spec: one}.Objects(t)...)
	if err := cluster.Run(t, top.New); err != nil {
		t.Fatal(err)
	}
	if got := cluster.Out.String(); !strings.Contains(got, "still for 24h") {
		t.Errorf("got\n%s", got)
	}
}

// Who may not list one kind is shown the other, and told; who may list none is refused.
func TestMissingRight(t *testing.T) {
	cluster := fakecluster.New(t, objects(t)...)
	refused := []string{"apps.kruise.io"}
	cluster.Dynamic.PrependReactor("list", "daemonsets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.GetResource().GroupResource()
		return slices.Contains(refused, r.Group), nil, apierrors.NewForbidden(r, "", nil)
	})
	if err := cluster.Run(t, top.New); err != nil {
		t.Fatal(err)
	}
	out, told := cluster.Out.String(), cluster.Err.String()
	if !strings.Contains(out, "daemonset/agent") || strings.Contains(out, "ads/") ||
		!strings.HasPrefix(told, "Note: daemonsets.apps.kruise.io are left out: you are not allowed to list daemonsets.apps.kruise.io in namespace default") {
		t.Errorf("got\n%s%s", out, told)
	}
	refused = append(refused, "apps")
	if err := cluster.Run(t, top.New); err == nil || strings.Count(err.Error(), "you are not allowed to list") != 2 {
		t.Errorf("got %v", err)
	}
	// Where the cluster does not know the other kind, "none" would not be true.
	cluster.WithoutKruise()
	if err := cluster.Run(t, top.New); err == nil || strings.Count(err.Error(), "you are not allowed to list") != 1 {
		t.Errorf("got %v, %s", err, cluster.Out)
	}
}

// A set that is updated over the air stands still for as long as the owners of the nodes like, which is no stall.
func TestOwnersDecide(t *testing.T) {
	edge := fakecluster.Roll{
		Name: "edge", Letters: "uoo", Annotations: map[string]string{"apps.openyurt.io/update-strategy": "OTA"},
		Spec: map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}},
	}
	cluster := fakecluster.New(t, edge.Objects(t)...)
	if err := cluster.Run(t, top.New, "-o", "wide"); err != nil {
		t.Fatal(err)
	}
	if got := cluster.Out.String(); !strings.Contains(got, "up to owners   wait-node-owner 2") || !strings.Contains(got, "updated when the owners of the nodes upgrade them") {
		t.Errorf("got\n%s", got)
	}
}

// The outcome of a set is computed once for its row and for what else is made of it: a row has the one that it is given.
func TestARowHasTheOutcomeThatItIsGiven(t *testing.T) {
	cluster := fakecluster.New(t, objects(t)...)
	set, err := resolver.Find(t.Context(), cluster.Options.Given, "ads/proxy")
	if err != nil {
		t.Fatal(err)
	}
	m, err := inspect.At(t.Context(), cluster.Options, cluster.Options.Given, set)
	if err != nil {
		t.Fatal(err)
	}
	if r := top.RowOf(m, inspect.Outcome{State: inspect.Failed, Why: "given"}); r.State != inspect.Failed || r.Why != "given" {
		t.Errorf("the row is %s: %s", r.State, r.Why)
	}
}
