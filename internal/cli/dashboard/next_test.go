// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/rollout"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// What happens next is said in words, whatever the nodes wait for, and when, if that is known.
func TestWhatHappensNext(t *testing.T) {
	minute := 60
	for want, o := range map[string]outlook{
		"nothing: the rollout is finished":                                                   {inspect.Finished, of(rollout.UpToDate, rollout.NotWanted), nil},
		"2 nodes are changed now; about 1m00s left":                                          {inspect.Rolling, of(rollout.Recreating, rollout.Creating, rollout.WaitBudget), &minute},
		"the next of 2 nodes follows when one of the 1 in progress is available":             {inspect.Rolling, of(rollout.WaitBudget, rollout.WaitAvailable, rollout.WaitBudget), nil},
		"the next of 1 node follows when fewer nodes are without an available pod":           {inspect.Rolling, of(rollout.WaitBudget, rollout.WaitUnreachable), nil},
		"1 node becomes available":                                                           {inspect.Rolling, of(rollout.UpToDate, rollout.WaitAvailable), nil},
		"nothing by itself, for 2 nodes: the update is paused":                               {inspect.Rolling, of(rollout.WaitPaused, rollout.WaitUnreachable, rollout.WaitPaused), nil},
		"nothing by itself, for 1 node: the partition keeps it as it is":                     {inspect.Finished, of(rollout.WaitPartition, rollout.UpToDate), &minute},
		"nothing by itself, for 1 node: the strategy OnDelete leaves it to you to delete it": {inspect.Rolling, of(rollout.WaitOnDelete), nil},
	} {
		if got := o.next(); got != want {
			t.Errorf("%v: %q, want %q", o.verdicts, got, want)
		}
	}
}

func of(kinds ...rollout.VerdictKind) (all []rollout.Verdict) {
	for _, kind := range kinds {
		all = append(all, rollout.Verdict{Kind: kind})
	}
	return all
}

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
