// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/explain"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

func rolling(more map[string]any) map[string]any {
	return map[string]any{"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": more}}
}

// crash has the pod of one node say why it does not start.
func crash(objects []runtime.Object) []runtime.Object {
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName == "node-3" {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", RestartCount: 4, State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s restarting failed container"},
			}}}
		}
	}
	return objects
}

// hold has the old pod of one node wait for the hook, if it is to.
func hold(objects []runtime.Object, wanted bool) []runtime.Object {
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok && wanted && pod.Spec.NodeName == "node-2" {
			pod.Labels["lifecycle.apps.kruise.io/state"], pod.Labels["example.com/in-use"] = "PreparingDelete", "yes"
			pod.Finalizers = []string{"example.com/drain"}
		}
	}
	return objects
}

func TestScreens(t *testing.T) {
	mid := fakecluster.Roll{Name: "agent", Letters: "uuatO-oooon"}
	tight := mid
	tight.Spec = map[string]any{"minReadySeconds": int64(300)}
	placed := fakecluster.Roll{Name: "agent", Letters: "oo"}
	template := placed.Template("registry.example/agent:2")
	template["spec"].(map[string]any)["nodeSelector"] = map[string]any{"disk": "ssd", "kubernetes.io/os": "linux"}
	placed.Spec = map[string]any{"template": template}
	advanced := func(letters string, rollingUpdate map[string]any) fakecluster.Roll {
		return fakecluster.Roll{Name: "agent", Advanced: true, Letters: letters, Spec: rolling(rollingUpdate)}
	}
	onDelete := fakecluster.Roll{Name: "agent", Letters: "uo", Spec: map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}}}
	ota := onDelete
	ota.Annotations = map[string]string{"apps.openyurt.io/update-strategy": "OTA"}
	for name, c := range map[string]struct {
		roll fakecluster.Roll
		line string
	}{
		"up-to-date":   {mid, "node-1 agent"},
		"budget":       {mid, "node-7 agent"},
		"crash":        {mid, "node-3 agent"},
		"terminating":  {mid, "node-4 agent"},
		"not-ready":    {mid, "node/node-5 agent"},
		"missing":      {mid, "node-6 ds/agent"},
		"tainted":      {mid, "node-11 agent"},
		"min-ready":    {tight, "node-1 agent"},
		"selector":     {placed, "node-1 agent"},
		"partition":    {advanced("uoooo", map[string]any{"partition": "80%"}), "node-2 ads/agent"},
		"paused":       {advanced("uo", map[string]any{"paused": true}), "node-2 agent"},
		"not-selected": {advanced("uo", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"canary": "yes"}}}), "node-2 agent"},
		"on-delete":    {onDelete, "node-2 agent"},
		"hook":         {advanced("uo", nil), "node-2 agent"},
		"owner":        {ota, "node-2 agent"},
		"json":         {mid, "node-7 agent -o json"},
		"all":          {mid, "node-7"},
		"all-yaml":     {mid, "node-7 -A -o yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "hook" {
				c.roll.Spec["lifecycle"] = map[string]any{"preDelete": map[string]any{
					"labelsHandler": map[string]any{"example.com/in-use": "yes"}, "finalizersHandler": []any{"example.com/drain"},
				}}
			}
			cluster := fakecluster.New(t, hold(crash(c.roll.Objects(t)), name == "hook")...)
			if err := cluster.Run(t, explain.New, strings.Fields(c.line)...); err != nil {
				t.Fatal(err)
			}
			fakecluster.Golden(t, *update, name+".txt", cluster.Out.String())
		})
	}
}

// The words of the policy that refuses a pod of a native set come from the newest event about the node: the set itself shows nothing, and only the manager
// remembers the refusal.
func TestRefusedByAPolicy(t *testing.T) {
	roll := fakecluster.Roll{Name: "agent", Letters: "unn"}
	const policy = "ValidatingAdmissionPolicy 'no-agents' with binding 'edge' denied request: "
	event := func(name, node, message string, age time.Duration) *corev1.Event {
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{everynode.EventNode: node}},
			InvolvedObject: corev1.ObjectReference{UID: roll.UID()}, Type: corev1.EventTypeWarning, Reason: "FailedCreate",
			LastTimestamp: metav1.NewTime(fakecluster.Now().Add(-age)), Message: "Error creating: " + message,
		}
	}
	cluster := fakecluster.New(t, append(roll.Objects(t), event("old", "node-2", policy+"first words", 9*time.Minute), event("new", "node-2", policy+"newest words", time.Minute),
		event("other", "node-3", policy+"words about another node", time.Second))...)
	if err := cluster.Run(t, explain.New, "node-2", "agent"); err != nil {
		t.Fatal(err)
	}
	out := cluster.Out.String()
	newest, first := strings.Index(out, policy+"newest words"), strings.Index(out, policy+"first words")
	if newest < 0 || first >= 0 && first < newest || strings.Contains(out, "another node") {
		t.Errorf("got\n%s", out)
	}
}

// TestRefusedLikeOthers: equal messages about different nodes become one event, which has the name of the first of them.
func TestRefusedLikeOthers(t *testing.T) {
	roll := fakecluster.Roll{Name: "agent", Letters: "u--"}
	event := func(name string, count int32) *corev1.Event {
		node, reason := "node-3", "FailedCreate"
		switch name {
		case "own":
			node = "node-2"
		case "0-deleting":
			reason = "FailedDelete"
		}
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{everynode.EventNode: node}},
			InvolvedObject: corev1.ObjectReference{UID: roll.UID()}, Type: corev1.EventTypeWarning, Reason: reason,
			Count: count, LastTimestamp: metav1.NewTime(fakecluster.Now().Add(-time.Minute)), Message: "Error creating: denied " + name,
		}
	}
	for node, want := range map[string]bool{"node-1": false, "node-2": true} { // the first has its pod
		cluster := fakecluster.New(t, append(roll.Objects(t), event("0-once", 1), event("0-deleting", 2), event("a", 3), event("b", 3), event("c", 2), event("own", 1))...)
		if err := cluster.Run(t, explain.New, node, "agent"); err != nil {
			t.Fatal(err)
		}
		out := cluster.Out.String()
		if strings.Contains(out, "1m00s ago: FailedCreate: Error creating: denied a (first for node-3)") != want || strings.Contains(out, "denied own") != want ||
			strings.Index(out, "denied own") > strings.Index(out, "denied a") || strings.Contains(out, "once") || strings.Contains(out, "deleting") {
			t.Errorf("%s: got\n%s", node, out)
		}
	}
}

// A node that is gone is still known to the sets that have pods there.
func TestNodeThatIsGone(t *testing.T) {
	objects := fakecluster.Roll{Name: "agent", Letters: "uou"}.Objects(t)
	other := fakecluster.Roll{Name: "other", Letters: "u"}
	objects = append(append(append(objects, other.Pods()...), other.Revisions(t)...), other.Object())
	objects = slices.DeleteFunc(objects, func(o runtime.Object) bool {
		node, ok := o.(*corev1.Node)
		return ok && node.Name == "node-2"
	})
	cluster := fakecluster.New(t, objects...)
	if err := cluster.Run(t, explain.New, "node-2"); err != nil {
		t.Fatal(err)
	}
	if got := cluster.Out.String(); !strings.Contains(got, "daemonset/agent   wait-collection") || strings.Contains(got, "other") {
		t.Errorf("got\n%s", got)
	}
}

func TestRefusals(t *testing.T) {
	for line, want := range map[string]string{
		"node-99 agent":   "there is no node node-99, and no pod of daemonset/agent names it: see kubectl get nodes",
		"pod/x agent":     `"pod/x" does not name a node: write NODE or node/NODE`,
		"node-1 agent -A": "--all-namespaces lists all sets: leave agent out, or the flag",
		"node-99":         "there is no node node-99, and no pod of a daemon set of namespace default names it: see kubectl get nodes",
		"node-99 -A":      "there is no node node-99, and no pod of a daemon set of any namespace names it: see kubectl get nodes",
	} {
		cluster := fakecluster.New(t, fakecluster.Roll{Name: "agent", Letters: "u"}.Objects(t)...)
		if err := cluster.Run(t, explain.New, strings.Fields(line)...); err == nil || err.Error() != want {
			t.Errorf("%s: %v (code %d), want %s", line, err, options.Code(err), want)
		}
	}
}

func TestCompletion(t *testing.T) {
	for line, want := range map[string][]string{"explain-node": {"node-1", "node-2"}, "explain-node node-1": {"agent", "daemonset/agent"}} {
		cluster := fakecluster.New(t, fakecluster.Roll{Name: "agent", Letters: "uu"}.Objects(t)...)
		cmd := explain.New(cluster.Options)
		cmd.SetContext(t.Context())
		got, _ := cmd.ValidArgsFunction(cmd, strings.Fields(line)[1:], "")
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}
