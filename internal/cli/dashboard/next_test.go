// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// suspended is a suspended policy for the set of roll. Its status is that of a manager which has not seen the suspension, or whose soak goes on.
func suspended(t *testing.T, next string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: waves, namespace: default, uid: uid-policy}
spec:
  suspend: true
  targets: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, name: agent}]
  waves: [{name: canary, nodes: {count: 1}, soak: 1h}]
status:
  sets:
  - {apiVersion: apps.kruise.io/v1beta1, name: agent, enforcement: Full, phase: Rolling, wave: canary, targetRevision: agent-7c9d5f6b8, targetNumber: 2,
     committedRevision: agent-6b8f7d4c9, next: `+next+`, waves: [{name: canary, nodes: 1, updated: 1, available: 1, phase: Soaking}]}
`), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// complete changes the status of suspended: all waves have passed.
func complete(t *testing.T, policy *unstructured.Unstructured) {
	t.Helper()
	sets, _, _ := unstructured.NestedSlice(policy.Object, "status", "sets")
	set, ok := sets[0].(map[string]any)
	if !ok {
		t.Fatal("the status has no set")
	}
	set["phase"], set["committedRevision"] = "Complete", set["targetRevision"]
	delete(set, "wave")
	if err := unstructured.SetNestedSlice(policy.Object, sets, "status", "sets"); err != nil {
		t.Fatal(err)
	}
}

// A suspended policy starts nothing, whatever ends meanwhile: what happens next is that a user resumes it. What has begun goes on.
func TestNextOfASuspendedPolicy(t *testing.T) {
	const resumed = "nothing starts before a user resumes the policy, with kubectl everynode resume rolloutpolicy/waves"
	for name, test := range map[string]struct{ letters, next, want string }{
		"a soak that ends":      {"uoo", `{action: EndSoak, at: "2026-03-01T13:00:00Z"}`, resumed},
		"a window that opens":   {"ooo", `{action: OpenWindow, at: "2026-03-01T13:00:00Z"}`, resumed},
		"a node in progress":    {"uao", "{action: Approve}", "1 node becomes available; then " + resumed},
		"nothing that is known": {"uoo", "null", resumed},
		"a finished rollout":    {"uuu", "null", "nothing: the rollout is finished"},
	} {
		r := fakecluster.Roll{Name: "agent", Advanced: true, Letters: test.letters}
		policy := suspended(t, test.next)
		if test.letters == "uuu" {
			complete(t, policy)
		}
		w := open(t, fakecluster.New(t, append(r.Objects(t), policy)...))
		var list, page message
		w.read(http.MethodGet, "/api/sets", "", &list)
		w.read(http.MethodGet, "/api/set"+setQuery, "", &page)
		if row, head := items[row](t, list)[0], part[head](t, page, "head"); row.Next != test.want || head.Next != test.want {
			t.Errorf("%s: the list says %q, the page %q, want %q", name, row.Next, head.Next, test.want)
		}
	}
}

// After a failure or a rejection a user decides; what has begun goes on, and a node that is not ready continues when it is ready.
func TestNextOfARevisionThatWasGivenUp(t *testing.T) {
	const undo = "nothing starts before a user returns to the previous revision, with kubectl everynode undo ads/agent, or "
	for phase, want := range map[v1alpha1.Phase]string{
		v1alpha1.PhaseFailed:   undo + "tries this one again, with kubectl everynode retry ads/agent",
		v1alpha1.PhaseRejected: undo + "deletes the rejection, with kubectl delete rolloutapproval no",
	} {
		policy := suspended(t, "null")
		unstructured.RemoveNestedField(policy.Object, "spec", "suspend")
		sets, _, _ := unstructured.NestedSlice(policy.Object, "status", "sets")
		sets[0].(map[string]any)["phase"] = string(phase) //nolint:forcetypeassert // suspended wrote it
		if phase == v1alpha1.PhaseFailed {
			sets[0].(map[string]any)["failure"] = map[string]any{"wave": "canary", "action": "Pause", "message": "Wave canary failed."} //nolint:forcetypeassert // suspended wrote it
		}
		if err := unstructured.SetNestedSlice(policy.Object, sets, "status", "sets"); err != nil {
			t.Fatal(err)
		}
		objects := append(fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uaoT"}.Objects(t), policy)
		if phase == v1alpha1.PhaseRejected {
			objects = append(objects, fakecluster.Object(t, `
apiVersion: everynode.dev/v1alpha1
kind: RolloutApproval
metadata: {name: "no", namespace: default, uid: uid-no}
spec: {policy: waves, set: agent, revision: agent-7c9d5f6b8, decision: Reject, by: jane, reason: It loses packets.}
status: {state: Valid, targetNumber: 2}
`))
		}
		var page message
		open(t, fakecluster.New(t, objects...)).read(http.MethodGet, "/api/set"+setQuery, "", &page)
		decided := part[head](t, page, "head").Policy.Decisions
		if text := "the revision was rejected by jane (no): It loses packets."; phase == v1alpha1.PhaseRejected && (len(decided) != 1 || decided[0].Text != text) {
			t.Errorf("the decisions are %+v, want %q", decided, text)
		}
		want = "1 node becomes available; then " + want + "; 1 node that is not ready continues when it is ready again"
		if next := part[head](t, page, "head").Next; next != want {
			t.Errorf("%s: %q, want %q", phase, next, want)
		}
	}
}

// A rollout that is stalled does not wait for its policy: a user must act, and the text says how.
func TestNextOfAStalledRollout(t *testing.T) {
	for reason, want := range map[string]string{
		"NodesGone": "nothing starts before the nodes of the wave are back, or a user continues without them, with kubectl everynode promote ads/agent, or returns to the previous revision, with kubectl everynode undo ads/agent",
		"Other":     "nothing starts before a user corrects what the policy reports: Another thing is wrong",
	} {
		policy := suspended(t, "null")
		unstructured.RemoveNestedField(policy.Object, "spec", "suspend")
		sets, _, _ := unstructured.NestedSlice(policy.Object, "status", "sets")
		set := sets[0].(map[string]any) //nolint:forcetypeassert // suspended wrote it
		set["phase"], set["blocking"] = "Stalled", []any{map[string]any{"reason": reason, "message": "Another thing is wrong."}}
		if err := unstructured.SetNestedSlice(policy.Object, sets, "status", "sets"); err != nil {
			t.Fatal(err)
		}
		var page message
		open(t, fakecluster.New(t, append(fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uao"}.Objects(t), policy)...)).read(http.MethodGet, "/api/set"+setQuery, "", &page)
		if next := part[head](t, page, "head").Next; next != "1 node becomes available; then "+want {
			t.Errorf("%s: %q, want %q", reason, next, want)
		}
	}
}

// Without its policy a rollout that it has begun starts nothing: what must happen is not that the policy releases the next node.
func TestNextAfterThePolicyWasDeleted(t *testing.T) {
	objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uo"}.Objects(t)
	for _, object := range objects {
		if r, is := object.(*appsv1.ControllerRevision); is && r.Revision == 1 {
			r.Annotations = map[string]string{everynode.Committed: everynode.FormatCommitted(1, string(r.UID))}
		}
	}
	var page message
	open(t, fakecluster.New(t, objects...)).read(http.MethodGet, "/api/set"+setQuery, "", &page)
	const want = "nothing starts before a user acts: the rollout policy that governed the daemon set was deleted in the middle of a rollout: " + inspect.AfterDeletion
	if next := part[head](t, page, "head").Next; next != want {
		t.Errorf("%q, want %q", next, want)
	}
}

// The list and the page of a set say the same, and which images they roll out.
func TestTheListSaysWhatRolls(t *testing.T) {
	w := open(t, fakecluster.New(t, roll().Objects(t)...))
	var list, page message
	w.read(http.MethodGet, "/api/sets", "", &list)
	w.read(http.MethodGet, "/api/set"+setQuery, "", &page)
	row, head := items[row](t, list)[0], part[head](t, page, "head")
	if row.Next == "" || row.Next != head.Next {
		t.Errorf("the list says %q, the page %q", row.Next, head.Next)
	}
	if images := part[[]revisionRow](t, page, "revisions")[0].Images; len(row.Images) != 1 || row.Images[0] != images[0] {
		t.Errorf("the list has the images %q, the page %q", row.Images, images)
	}
}

// A rollout that gets no further does not look like one that does: the list and the page say why, for how long, and how many of the updated nodes are available.
func TestARolloutThatHalts(t *testing.T) {
	paused := map[string]any{"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"paused": true}}}
	for name, test := range map[string]struct {
		letters, reason, want string
		spec                  map[string]any
		policy, stalled       bool
		done                  int
	}{
		"no progress":         {letters: "uato", done: 1, stalled: true, want: "stuck"},
		"a pod does not pull": {letters: "uao", reason: "ImagePullBackOff", want: "stuck", done: 1, stalled: true},
		"paused":              {letters: "uao", spec: paused, want: "paused", done: 1},
		"suspended":           {letters: "uoo", policy: true, want: "suspended", done: 1, stalled: true},
		"only a cut node":     {letters: "uuT", want: "nodes not ready", done: 2, stalled: true},
		"finished":            {letters: "uuu", done: 3},
	} {
		objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: test.letters, Spec: test.spec}.Objects(t)
		for _, o := range objects {
			if p, is := o.(*corev1.Pod); is && test.reason != "" && p.Spec.NodeName == "node-2" {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: test.reason}}}}
			}
		}
		if test.policy {
			objects = append(objects, suspended(t, "null"))
		}
		w := open(t, fakecluster.New(t, objects...))
		var list, page message
		w.read(http.MethodGet, "/api/sets", "", &list)
		w.read(http.MethodGet, "/api/set"+setQuery, "", &page)
		row, head := items[row](t, list)[0], part[head](t, page, "head")
		if row.Halt != test.want || head.Halt != test.want || row.Done != test.done || row.SecondsStalled > 0 != test.stalled || head.SecondsStalled > 0 != test.stalled {
			t.Errorf("%s: the list says %q, %d done, still for %d s, the page %q, still for %d s", name, row.Halt, row.Done, row.SecondsStalled, head.Halt, head.SecondsStalled)
		}
	}
}
