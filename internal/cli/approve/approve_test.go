// SPDX-License-Identifier: Apache-2.0

package approve_test

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files")

const set = `
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: agent, namespace: default, uid: uid-ads}
spec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: agent, image: "registry.example/agent:2"}]}}}
`

// policy is a policy whose status has this phase of the rollout and of the wave canary.
func policy(t *testing.T, phase, canary string) *unstructured.Unstructured {
	t.Helper()
	return fakecluster.Object(t, fmt.Sprintf(`
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: agents, namespace: default, uid: uid-policy, generation: 1}
spec:
  targets: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, name: agent}]
  waves:
  - {name: canary, nodes: {count: 3}, soak: 30m, after: [{type: Approval}]}
  - {name: tenth, nodes: {percent: 10}, soak: 1h}
  - {name: rest, nodes: {percent: 100}}
status:
  sets:
  - apiVersion: apps.kruise.io/v1beta1
    name: agent
    enforcement: Full
    phase: %s
    wave: canary
    targetRevision: agent-7f
    targetNumber: 2
    committedRevision: agent-6c
    waves:
    - {name: canary, nodes: 3, updated: 3, available: 3, phase: %s}
    - {name: tenth, nodes: 7, updated: 0, available: 0, phase: Pending}
    - {name: rest, nodes: 90, updated: 0, available: 0, phase: Pending}
    - {name: remaining, nodes: 0, updated: 0, available: 0, phase: Pending}
`, phase, canary))
}

// cluster is a cluster in which the user is jane, and the API server gives objects names.
func cluster(t *testing.T, objects ...runtime.Object) *fakecluster.Cluster {
	t.Helper()
	c := fakecluster.New(t, append(objects, fakecluster.Object(t, set))...)
	c.HonourDryRun(t)
	c.Kubernetes.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		review := &authenticationv1.SelfSubjectReview{}
		review.Status.UserInfo.Username = "jane"
		return true, review, nil
	})
	c.Dynamic.PrependReactor("create", "rolloutapprovals", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object := action.(clienttesting.CreateActionImpl).Object.(*unstructured.Unstructured)
		object.SetName(object.GetGenerateName() + "x7k2p")
		return false, nil, nil
	})
	return c
}

func session(t *testing.T, c *fakecluster.Cluster, lines ...string) string {
	t.Helper()
	return c.Session(t, command.Root, lines...)
}

func TestScreens(t *testing.T) {
	waiting := func(t *testing.T) *fakecluster.Cluster {
		return cluster(t, policy(t, "WaitingForApproval", "WaitingForApproval"))
	}
	for name, play := range map[string]func(t *testing.T) string{
		"approve": func(t *testing.T) string {
			return session(t, waiting(t), "approve agent --revision agent-5b", "approve agent --revision agent-7f --dry-run=client", "approve agent --dry-run=client", "approve agent --dry-run", "approve ads/agent --reason 'dashboards are fine'", "approve agent",
				"approve agent --wave tenth", "approve agent --wave what", "approve nobody", "approve", "approve agent --dry-run=later")
		},
		"approve-early": func(t *testing.T) string {
			return session(t, cluster(t, policy(t, "Rolling", "Rolling")), "approve agent", "approve agent --wave canary", "approve agent") +
				session(t, cluster(t, policy(t, "Rolling", "Passed")), "approve agent", "approve agent --wave canary")
		},
		"approve-never": func(t *testing.T) string {
			none := policy(t, "WaitingForWindow", "Pending")
			for _, w := range none.Object["spec"].(map[string]any)["waves"].([]any) {
				delete(w.(map[string]any), "after")
			}
			return session(t, cluster(t, none), "approve agent", "approve agent --wave canary")
		},
		"promote": func(t *testing.T) string {
			return session(t, cluster(t, policy(t, "Soaking", "Soaking")), "promote agent --reason urgent", "promote agent", "promote agent --wave rest") +
				session(t, waiting(t), "promote agent") + session(t, cluster(t, policy(t, "Soaking", "Soaking")), "approve agent")
		},
		"promote-gone": func(t *testing.T) string {
			gone := policy(t, "Stalled", "Rolling")
			gone.Object["spec"].(map[string]any)["waves"].([]any)[0] = map[string]any{"name": "canary", "nodes": map[string]any{"count": int64(3)}}
			status := gone.Object["status"].(map[string]any)["sets"].([]any)[0].(map[string]any)
			status["blocking"] = []any{map[string]any{"reason": "NodesGone", "message": "The update had begun on 3 nodes."}}
			return session(t, cluster(t, gone), "promote agent --wave tenth --dry-run=client", "promote agent --reason 'the nodes were removed'", "promote agent")
		},
		"promote-again": func(t *testing.T) string {
			const one = `
apiVersion: everynode.dev/v1alpha1
kind: RolloutApproval
metadata: {name: %s, namespace: default}
spec: {policy: agents, set: agent, wave: canary, revision: agent-7f, decision: Promote, by: ada}
status: {state: Valid, targetNumber: 2, attempt: 1%s}
`
			ofStep, ofSoak := fakecluster.Object(t, fmt.Sprintf(one, "step", ", step: 1")), fakecluster.Object(t, fmt.Sprintf(one, "soak", ""))
			left := policy(t, "Rolling", "Rolling")
			left.Object["status"].(map[string]any)["sets"].([]any)[0].(map[string]any)["blocking"] = []any{map[string]any{"reason": "NodesLeftOut", "message": "Each node is left out."}}
			out := session(t, cluster(t, left, ofStep, ofSoak), "promote agent --dry-run=client")                 // the next step
			dropped := fakecluster.Object(t, fmt.Sprintf(one, "dropped", ", message: It does not end the soak.")) // an earlier version of the CRD has no step
			out += session(t, cluster(t, policy(t, "Soaking", "Soaking"), dropped), "promote agent --dry-run=client")
			return out + session(t, cluster(t, policy(t, "Soaking", "Soaking"), ofStep), "promote agent --dry-run=client") + session(t, cluster(t, policy(t, "Soaking", "Soaking"), ofStep, ofSoak), "promote agent --dry-run=client")
		},
		"promote-left-out": func(t *testing.T) string {
			out := ""
			for _, nodes := range []int64{0, 3} { // the whole wave, or a step of its growth
				left := policy(t, "Rolling", "Rolling")
				status := left.Object["status"].(map[string]any)["sets"].([]any)[0].(map[string]any)
				status["blocking"] = []any{map[string]any{"reason": "NodesLeftOut", "message": "Each node is left out."}}
				status["waves"].([]any)[0].(map[string]any)["nodes"] = nodes
				out += session(t, cluster(t, left), "promote agent --reason 'the nodes are dead' --dry-run=client")
			}
			return out
		},
		"reject": func(t *testing.T) string {
			return session(t, waiting(t), "reject agent --reason 'it leaks memory' -o yaml", "reject agent", "approve agent", "promote agent", "reject agent --wave canary", "retry agent") +
				session(t, cluster(t, policy(t, "Rejected", "Rolling")), "retry agent")
		},
		"failed": func(t *testing.T) string {
			failed := policy(t, "Failed", "Rolling")
			status := failed.Object["status"].(map[string]any)["sets"].([]any)[0].(map[string]any)
			status["failure"] = map[string]any{"wave": "canary", "action": "Pause", "message": "Wave canary failed: 1 of 3 nodes failed, and 0 may fail."}
			return session(t, cluster(t, failed), "approve agent", "undo agent --to-committed --dry-run", "retry agent --reason 'the registry works again'", "retry agent") +
				session(t, waiting(t), "retry agent", "undo agent --to-committed --reason 'it leaks memory'", "undo agent --to-committed", "undo agent --reason no",
					"undo agent --to-committed --to-revision 2")
		},
		"undo-held": func(t *testing.T) string {
			held := policy(t, "Failed", "Rolling")
			status := held.Object["status"].(map[string]any)["sets"].([]any)[0].(map[string]any)
			status["failure"] = map[string]any{"wave": "canary", "action": "Undo", "message": "Wave canary failed: 1 of 3 nodes failed, and 0 may fail."}
			ended := session(t, cluster(t, held.DeepCopy()), "undo agent --to-committed")
			status["blocking"] = []any{map[string]any{"reason": "UndoNotPossible", "message": "The undo is not possible, because argocd may write the template again."}}
			return ended + session(t, cluster(t, held), "undo agent --to-committed")
		},
		"undo-on-delete": func(t *testing.T) string {
			enforced := func(kind string) *fakecluster.Cluster {
				p := policy(t, "Rolling", "Rolling")
				p.Object["status"].(map[string]any)["sets"].([]any)[0].(map[string]any)["enforcement"] = kind
				return cluster(t, p)
			}
			return session(t, enforced("OnDelete"), "undo agent --to-committed") + session(t, enforced("Announcements"), "undo agent --to-committed") + session(t, enforced("None"), "undo agent --to-committed")
		},
		"by-policy": func(t *testing.T) string {
			two := policy(t, "Rolling", "Rolling")
			of := two.Object["status"].(map[string]any)
			of["sets"] = append(of["sets"].([]any), map[string]any{"apiVersion": "apps/v1", "name": "net", "enforcement": "Full", "phase": "Complete"})
			silent := policy(t, "Rolling", "Rolling")
			delete(silent.Object, "status")
			return session(t, waiting(t), "approve rolloutpolicy/agents --dry-run", "approve agents", "reject rop/other", "reject agents --dry-run=client", "retry agents",
				"undo agents --to-committed --dry-run=client", "undo rop/agents --to-committed --dry-run=client", "undo rop/agents") +
				session(t, cluster(t, two), "approve agents", "approve rop/agents") + session(t, cluster(t, silent), "approve agents", "approve rop/agents")
		},
		"none": func(t *testing.T) string {
			atRest := policy(t, "Complete", "Passed")
			status := atRest.Object["status"].(map[string]any)["sets"].([]any)[0].(map[string]any)
			status["committedRevision"] = status["targetRevision"]
			silent := policy(t, "Rolling", "Rolling")
			delete(silent.Object, "status")
			second := policy(t, "Stalled", "Pending")
			second.SetName("others")
			return session(t, cluster(t), "approve agent") +
				session(t, cluster(t).WithoutPolicies(), "approve agent") +
				session(t, cluster(t, atRest), "approve agent", "reject agent") +
				session(t, cluster(t, silent), "approve agent") +
				session(t, cluster(t, policy(t, "Stalled", "Pending"), second), "approve agent")
		},
		"suspended": func(t *testing.T) string {
			p := policy(t, "Suspended", "WaitingForApproval")
			p.Object["spec"].(map[string]any)["suspend"] = true
			return session(t, cluster(t, p), "approve agent")
		},
		"denied": func(t *testing.T) string {
			c := waiting(t)
			c.Dynamic.PrependReactor("create", "rolloutapprovals", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "",
					errors.New(`User "jane" cannot create resource "rolloutapprovals" in API group "everynode.dev" in the namespace "default"`))
			})
			return session(t, c, "approve agent")
		},
	} {
		t.Run(name, func(t *testing.T) { fakecluster.Golden(t, *update, name+".txt", play(t)) })
	}
}

// A decision of an earlier rollout to the same revision, or of an earlier attempt, does not count, so it is no reason to refuse a new one.
func TestEarlierRolloutDoesNotCount(t *testing.T) {
	for state, refused := range map[string]bool{
		"{state: Void}": false, "{state: Valid, targetNumber: 1}": false, "{state: Valid, targetNumber: 2}": true, "{}": true,
		"{state: Valid, targetNumber: 2, attempt: 1}": true, "{state: Valid, targetNumber: 2, attempt: 2}": false,
	} {
		before := fakecluster.Object(t, "apiVersion: everynode.dev/v1alpha1\nkind: RolloutApproval\nmetadata: {name: before, namespace: default}\n"+
			"spec: {policy: agents, set: agent, wave: canary, revision: agent-7f, decision: Approve, by: john}\nstatus: "+state+"\n")
		text := session(t, cluster(t, policy(t, "WaitingForApproval", "WaitingForApproval"), before), "approve agent")
		if got := strings.Contains(text, "is already approved by john: rolloutapproval/before"); got != refused {
			t.Errorf("%s: refused %t, want %t:\n%s", state, got, refused, text)
		}
	}
}

// TestDecisionOfAFormerSetDoesNotCount: a daemon set that was created again may have a rollout with the number of an earlier one. A decision that is older than the rollout is no reason to refuse a new one.
func TestDecisionOfAFormerSetDoesNotCount(t *testing.T) {
	for created, refused := range map[string]bool{"2026-11-27T11:58:00Z": false, "2026-11-27T11:59:30Z": true, "2026-11-27T12:05:00Z": true} {
		before := fakecluster.Object(t, "apiVersion: everynode.dev/v1alpha1\nkind: RolloutApproval\nmetadata: {name: before, namespace: default, creationTimestamp: \""+created+"\"}\n"+
			"spec: {policy: agents, set: agent, wave: canary, revision: agent-7f, decision: Approve, by: john}\nstatus: {state: Valid, targetNumber: 2}\n")
		of := policy(t, "WaitingForApproval", "WaitingForApproval")
		sets, _, err := unstructured.NestedSlice(of.Object, "status", "sets")
		if err != nil {
			t.Fatal(err)
		}
		sets[0].(map[string]any)["startedAt"] = "2026-11-27T12:00:00Z" //nolint:forcetypeassert // the policy has it
		if err := unstructured.SetNestedSlice(of.Object, sets, "status", "sets"); err != nil {
			t.Fatal(err)
		}
		text := session(t, cluster(t, of, before), "approve agent")
		if got := strings.Contains(text, "is already approved by john: rolloutapproval/before"); got != refused {
			t.Errorf("created at %s: refused %t, want %t:\n%s", created, got, refused, text)
		}
	}
}

// The state of a decision that could not be written into it is in the status of the policy.
func TestStateInThePolicy(t *testing.T) {
	before := fakecluster.Object(t, "apiVersion: everynode.dev/v1alpha1\nkind: RolloutApproval\nmetadata: {name: before, namespace: default, uid: uid-before}\n"+
		"spec: {policy: agents, set: agent, wave: canary, revision: agent-7f, decision: Approve}\n")
	of := policy(t, "WaitingForApproval", "WaitingForApproval")
	if err := unstructured.SetNestedSlice(of.Object, []any{map[string]any{"uid": "uid-before", "state": "Void"}}, "status", "decisions"); err != nil {
		t.Fatal(err)
	}
	if text := session(t, cluster(t, of, before), "approve agent"); strings.Contains(text, "is already approved") {
		t.Error(text)
	}
}

func TestNameIsOptional(t *testing.T) {
	c := cluster(t, policy(t, "WaitingForApproval", "WaitingForApproval"))
	c.Kubernetes.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("not served")
	})
	if text := session(t, c, "approve agent"); !strings.Contains(text, "is approved") || strings.Contains(text, "by: ") {
		t.Errorf("it prints:\n%s", text)
	}
}

func TestCompletion(t *testing.T) {
	c := cluster(t, policy(t, "Rolling", "Rolling"))
	for line, want := range map[string]string{
		"__complete approve ":                "ads/agent\nagent\nrolloutpolicy/agents\n:4",
		"__complete approve agents --wave ":  "canary\ntenth\nrest\n:4",
		"__complete approve agent --wave ":   "canary\ntenth\nrest\n:4",
		"__complete suspend ":                "ads/agent\nagent\nrolloutpolicy/agents\n:4",
		"__complete promote agent --reason ": ":4",
	} {
		if got := session(t, c, strings.TrimSuffix(line, " ")+" ''"); !strings.Contains(got, "\n"+want) {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// TestHelpOfRetry: pods that still fail make the revision fail again after nodeDeadline, as TestARetryOfPodsThatStillFail of internal/policy shows.
func TestHelpOfRetry(t *testing.T) {
	retry, _, err := command.Root(fakecluster.New(t).Options).Find([]string{"retry"})
	if err != nil {
		t.Fatal(err)
	}
	if text := retry.Long; !strings.Contains(text, "failure.nodeDeadline") || strings.Contains(text, "until they have been") {
		t.Errorf("the help is %s", text)
	}
}
