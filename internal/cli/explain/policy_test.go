// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/cli/explain"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// governed is a policy with more fields of its specification, and a status that waits for the approval of the canary.
func governed(more, phase string) string {
	return fmt.Sprintf(`
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: agents, namespace: default, uid: uid-policy}
spec:
  %s
  targets: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, name: agent}]
  waves:
  - {name: canary, nodes: {count: 2}, after: [{type: Approval}]}
  - {name: half, nodes: {percent: 50}, soak: 1h}
status:
  sets:
  - apiVersion: apps.kruise.io/v1beta1
    name: agent
    enforcement: Full
    phase: %s
    wave: canary
    targetRevision: agent-7c9d5f6b8
    targetNumber: 2
    committedRevision: agent-6b8f7d4c9
    next: {action: Approve}
    blocking: [{reason: Approval, message: The wave canary is complete and needs a RolloutApproval for revision agent-7c9d5f6b8.}]
    waves:
    - {name: canary, nodes: 2, updated: 2, available: 2, phase: WaitingForApproval, waitingSince: "2026-03-01T11:42:00Z"}
    - {name: half, nodes: 1, updated: 0, available: 0, phase: Pending}
    - {name: remaining, nodes: 3, updated: 0, available: 0, phase: Pending}
`, more, phase)
}

// analysed is governed with an analysis that has no answer.
func analysed() string {
	text := strings.Replace(governed(`analyses: [{name: errors, provider: main, query: x, success: result < 0.01}]`, "Soaking"), "after: [{type: Approval}]", "analysis: [errors]", 1)
	text = strings.Replace(text, "phase: WaitingForApproval, waitingSince", "phase: Soaking, completedAt", 1)
	text = strings.Replace(text, "next: {action: Approve}", `analyses: [{name: errors, wave: canary, answer: Unknown, measurements: [{at: "2026-03-01T11:59:00Z", answer: Unknown, message: The provider cannot be reached.}]}]`, 1)
	return strings.Replace(text, "reason: Approval, message: The wave canary is complete and needs a RolloutApproval for revision agent-7c9d5f6b8.",
		"reason: Analysis, message: The analysis errors has no answer. The provider cannot be reached.", 1)
}

// failed is governed after the undo of a revision that failed on node-1 and node-3. The pod of node-1 still exists.
func failed() string {
	nodes := `failed: 2, failedNodes: [{name: node-1, reason: CrashLoopBackOff, message: A container of pod agent-node-1-7c9 waits because of CrashLoopBackOff., pod: agent-node-1-7c9, exitCode: 1, exitReason: Error}, {name: node-3, reason: ImagePullBackOff, message: A container waits., pod: agent-gone}],`
	text := strings.Replace(governed("failure: {action: Undo}", "Failed"), "name: canary, nodes: 2, updated: 2, available: 2, phase: WaitingForApproval,", "name: canary, nodes: 2, updated: 2, available: 0, phase: Rolling, "+nodes, 1)
	text = strings.Replace(text, `waitingSince: "2026-03-01T11:42:00Z"`, `rollingSince: "2026-03-01T11:42:00Z"`, 1)
	text = strings.Replace(text, "next: {action: Approve}", "rejectedRevision: agent-7c9d5f6b8\n    failure: {wave: canary, action: Undo, message: Wave canary failed.}", 1)
	return strings.Replace(text, "reason: Approval, message: The wave canary is complete and needs a RolloutApproval for revision agent-7c9d5f6b8.", "reason: Failed, message: Wave canary failed. The nodes have returned to the committed revision.", 1)
}

const rejection = `
apiVersion: everynode.dev/v1alpha1
kind: RolloutApproval
metadata: {name: rejection, namespace: default, uid: uid-no}
spec: {policy: agents, set: agent, revision: agent-7c9d5f6b8, decision: Reject, by: jane}
status: {state: Valid, targetNumber: 2}
`

func TestPolicies(t *testing.T) {
	waiting := governed("", "WaitingForApproval")
	for name, c := range map[string]struct {
		line     string
		policies []string
	}{
		"policy-order": {"node-6 agent", []string{strings.NewReplacer("after: [{type: Approval}]", "soak: 0s", "wave: canary\n", "wave: remaining\n", "phase: WaitingForApproval, waitingSince", "phase: Passed, completedAt",
			"nodes: 1, updated: 0, available: 0, phase: Pending", "nodes: 1, updated: 1, available: 1, phase: Passed", "available: 0, phase: Pending", `available: 0, domain: kubernetes.io/hostname=node-4, phase: Rolling, rollingSince: "2026-03-01T11:42:00Z"`,
			"next: {action: Approve}", "", "reason: Approval, message: The wave canary is complete and needs a RolloutApproval for revision agent-7c9d5f6b8.", "reason: Budget, message: It waits.").Replace(governed("order: {topologyKey: kubernetes.io/hostname}", "Rolling"))}},
		"policy-done":      {"node-1 agent", []string{waiting}},
		"policy-approval":  {"node-3 agent", []string{waiting}},
		"policy-wave":      {"node-6 agent", []string{waiting}},
		"policy-suspended": {"node-6 agent", []string{strings.Replace(governed("suspend: true", "Suspended"), "after: [{type: Approval}]", "soak: 0s", 1)}},
		"policy-conflict":  {"node-6 agent", []string{waiting, strings.Replace(waiting, "name: agents", "name: others", 1)}},
		"policy-analysis":  {"node-3 agent", []string{analysed()}},
		"policy-failed":    {"node-1 agent", []string{failed()}},
		"policy-undone":    {"node-3 agent", []string{failed()}},
		"policy-back":      {"node-2 agent", []string{strings.Replace(failed(), "phase: Failed", "phase: Undoing", 1)}},
		"policy-asked":     {"node-2 agent", []string{strings.NewReplacer("phase: Failed", "phase: Undoing", "wave: canary, action: Undo, message: Wave canary failed.", "action: Undo, message: The undo was requested by jane.").Replace(failed()), strings.NewReplacer("name: rejection", "name: bad", "decision: Reject", "decision: Undo").Replace(rejection)}},
		"policy-none":      {"node-6 agent", []string{strings.NewReplacer("enforcement: Full", "enforcement: None", "next: {action: Approve}", "").Replace(governed("suspend: true", "Stalled"))}},
		"policy-rejected":  {"node-6 agent", []string{strings.Replace(waiting, "next: {action: Approve}", "", 1), rejection}},
		"policy-stopped":   {"node-1 agent", []string{strings.NewReplacer("next: {action: Approve}", "rejectedRevision: agent-7c9d5f6b8").Replace(governed("", "Rejected")), rejection}},
		"policy-empty": {"node-6 agent", []string{strings.NewReplacer("nodes: {count: 2}, after", "nodes: {selector: {matchLabels: {a: b}}}, after", "next: {action: Approve}", "",
			"reason: Approval, message: The wave canary is complete and needs a RolloutApproval for revision agent-7c9d5f6b8.", "reason: EmptyWave, message: No node is selected.").Replace(governed("", "Stalled"))}},
		"policy-gone": {"node-6 agent", nil},
	} {
		t.Run(name, func(t *testing.T) {
			objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uuoooo"}.Objects(t)
			for _, object := range objects {
				if r, ok := object.(*appsv1.ControllerRevision); ok && r.Revision == 1 {
					r.Annotations = map[string]string{everynode.Committed: everynode.FormatCommitted(1, string(r.UID))}
				}
			}
			for _, manifest := range c.policies {
				objects = append(objects, fakecluster.Object(t, manifest))
			}
			cluster := fakecluster.New(t, objects...)
			if err := cluster.Run(t, explain.New, strings.Fields(c.line)...); err != nil {
				t.Fatal(err)
			}
			fakecluster.Golden(t, *update, name+".txt", cluster.Out.String()+cluster.Err.String())
		})
	}
}

// TestDeletedPolicyOfAnOnDeleteSet: the advice to delete the pod would bypass the waves.
func TestDeletedPolicyOfAnOnDeleteSet(t *testing.T) {
	for committed, golden := range map[int64]string{1: "policy-gone-ondelete", 2: "policy-gone-at-rest"} {
		objects := fakecluster.Roll{Name: "agent", Letters: "uuoooo", Spec: map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}}}.Objects(t)
		for _, object := range objects {
			if r, ok := object.(*appsv1.ControllerRevision); ok && r.Revision == committed {
				r.Annotations = map[string]string{everynode.Committed: everynode.FormatCommitted(1, string(r.UID))}
			}
		}
		cluster := fakecluster.New(t, objects...)
		if err := cluster.Run(t, explain.New, "node-6", "agent"); err != nil {
			t.Fatal(err)
		}
		fakecluster.Golden(t, *update, golden+".txt", cluster.Out.String()+cluster.Err.String())
	}
}

// TestAnnouncements: the condition is shown on a pod with a newer revision, and not on one without.
func TestAnnouncements(t *testing.T) {
	for announced, want := range map[corev1.ConditionStatus]string{corev1.ConditionTrue: "a newer revision is announced to it: 7c9d5f6b8", corev1.ConditionFalse: ""} {
		objects := fakecluster.Roll{Name: "agent", Letters: "uo", Spec: map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}}}.Objects(t)
		for _, object := range objects {
			if pod, ok := object.(*corev1.Pod); ok {
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: openyurt.PodNeedUpgrade, Status: announced, Message: "controllerrevision: 7c9d5f6b8"})
			}
		}
		cluster := fakecluster.New(t, objects...)
		if err := cluster.Run(t, explain.New, "node-2", "agent"); err != nil {
			t.Fatal(err)
		}
		if got := cluster.Out.String(); !strings.Contains(got, want) || strings.Contains(got, "PodNeedUpgrade") || want == "" && strings.Contains(got, "announced") {
			t.Errorf("%s:\n%s", announced, got)
		}
	}
}

// TestConcurrencyGroup: the command names the other set of the group that the node waits for.
func TestConcurrencyGroup(t *testing.T) {
	other := fakecluster.Roll{Name: "net", Letters: "ouaooo"}
	objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "oooooo"}.Objects(t)
	objects = append(append(append(objects, other.Pods()...), other.Revisions(t)...), other.Object())
	for _, object := range objects {
		if r, ok := object.(*appsv1.ControllerRevision); ok && r.Revision == 1 {
			r.Annotations = map[string]string{everynode.Committed: everynode.FormatCommitted(1, string(r.UID))}
		}
	}
	for _, target := range []string{"apiVersion: apps.kruise.io/v1beta1, name: agent", "apiVersion: apps/v1, name: net"} {
		name := target[strings.LastIndex(target, " ")+1:]
		objects = append(objects, fakecluster.Object(t, fmt.Sprintf(`
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: %s, namespace: default, uid: uid-%s}
spec:
  targets: [{%s, kind: DaemonSet}]
  concurrencyGroup: {name: network, scope: Node}
`, name, name, target)))
	}
	for node, golden := range map[string]string{"node-3": "policy-group", "node-4": "policy-group-free"} {
		cluster := fakecluster.New(t, objects...)
		if err := cluster.Run(t, explain.New, node, "ads/agent"); err != nil {
			t.Fatal(err)
		}
		fakecluster.Golden(t, *update, golden+".txt", cluster.Out.String()+cluster.Err.String())
	}
}
