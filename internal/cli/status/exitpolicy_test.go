// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/status"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// updated is a set with its new revision on all nodes; committed is the number of the revision that has the mark.
func updated(t *testing.T, committed int64) []runtime.Object {
	t.Helper()
	objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uuuu"}.Objects(t)
	for _, object := range objects {
		if r, ok := object.(*appsv1.ControllerRevision); ok && r.Revision == committed {
			r.Annotations = map[string]string{everynode.Committed: everynode.FormatCommitted(1, string(r.UID))}
		}
	}
	return objects
}

// reported is the policy of that set, with a phase in its status.
func reported(t *testing.T, phase v1alpha1.Phase, enforcement v1alpha1.Enforcement) *unstructured.Unstructured {
	t.Helper()
	committed := "agent-6b8f7d4c9"
	if phase == v1alpha1.PhaseComplete {
		committed = "agent-7c9d5f6b8"
	}
	failure := ""
	if phase == v1alpha1.PhaseFailed {
		failure = "failure: {wave: canary, action: Pause, message: Wave canary failed.}"
	}
	return fakecluster.Object(t, policySpec+strings.NewReplacer("FAILURE", failure, "PHASE", string(phase), "ENFORCEMENT", string(enforcement), "COMMITTED", committed).Replace(`
status:
  sets:
  - apiVersion: apps.kruise.io/v1beta1
    name: agent
    enforcement: ENFORCEMENT
    phase: PHASE
    targetRevision: agent-7c9d5f6b8
    targetNumber: 2
    committedRevision: COMMITTED
    FAILURE
    blocking: [{reason: Why, message: The reason why nothing starts.}]
`))
}

const rejection = `
apiVersion: everynode.dev/v1alpha1
kind: RolloutApproval
metadata: {name: rejection, namespace: default, uid: uid-no}
spec: {policy: agents, set: agent, revision: agent-7c9d5f6b8, decision: Reject, by: jane, reason: It loses packets.}
status: {state: Valid, targetNumber: 2}
`

// TestExitStatusInEachPhase: all nodes are updated and available. The rollout has ended when the policy reports that it is complete, and not before.
func TestExitStatusInEachPhase(t *testing.T) {
	for _, phase := range v1alpha1.Phases() {
		want, code, committed := "rolling: ", options.ExitUnfinished, int64(1)
		switch phase {
		case v1alpha1.PhaseComplete:
			want, code, committed = "finished: ", options.ExitOK, 2
		case v1alpha1.PhaseFailed, v1alpha1.PhaseRejected:
			want = "failed: "
		}
		objects := append(updated(t, committed), reported(t, phase, v1alpha1.EnforcementFull))
		if phase == v1alpha1.PhaseRejected {
			objects = append(objects, fakecluster.Object(t, rejection))
		}
		cluster := fakecluster.New(t, objects...)
		err := cluster.Run(t, status.New, "agent", "--exit-status", "--timeout", "300ms")
		if got := cluster.Out.String(); options.Code(err) != code || !strings.Contains(got, "\n"+want) {
			t.Errorf("%s: code %d (%v), want %d and %q:\n%s", phase, options.Code(err), err, code, want, got)
		}
	}
}

// TestExitStatusHasTheRemedy: a revision that was rejected cannot be retried.
func TestExitStatusHasTheRemedy(t *testing.T) {
	const cannot = "the rollout cannot go on: "
	second := strings.NewReplacer("name: rejection", "name: second", "uid-no", "uid-second").Replace(rejection)
	unread := "delete the RolloutApproval with the rejection, or change the template"
	for name, c := range map[string]struct {
		phase     v1alpha1.Phase
		approvals []string
		want      string
	}{
		"failed":           {v1alpha1.PhaseFailed, nil, "change the template, or retry the revision"},
		"failed, rejected": {v1alpha1.PhaseFailed, []string{rejection}, "delete the rejection (kubectl delete rolloutapproval rejection), or change the template; a revision that has failed needs a retry as well"},
		"rejected":         {v1alpha1.PhaseRejected, []string{rejection}, "delete the rejection (kubectl delete rolloutapproval rejection), or change the template"},
		"rejected twice":   {v1alpha1.PhaseRejected, []string{rejection, second}, "delete the rejection (kubectl delete rolloutapproval rejection second), or change the template"},
	} {
		objects := append(updated(t, 1), reported(t, c.phase, v1alpha1.EnforcementFull))
		for _, a := range c.approvals {
			objects = append(objects, fakecluster.Object(t, a))
		}
		err := fakecluster.New(t, objects...).Run(t, status.New, "agent", "--exit-status", "--timeout", "5s")
		if err == nil || err.Error() != cannot+c.want {
			t.Errorf("%s: %v, want %q", name, err, cannot+c.want)
		}
	}
	if r := (&inspect.PolicyReport{SetStatus: v1alpha1.SetStatus{Phase: v1alpha1.PhaseRejected}}); r.Remedy() != unread {
		t.Errorf("without the right to read approvals: %s, want %s", r.Remedy(), unread)
	}
}

// A policy without effect on the set does not count, and one that no manager has reported does.
func TestExitStatusOfPoliciesWithoutReport(t *testing.T) {
	for name, c := range map[string]struct {
		policy runtime.Object
		code   int
		says   string
	}{
		"no effect":    {reported(t, v1alpha1.PhaseStalled, v1alpha1.EnforcementNone), options.ExitOK, "finished: "},
		"not reported": {fakecluster.Object(t, policySpec), options.ExitUnfinished, "rolling: default/ads/agent: no manager of Everynode has reported yet that this rollout is complete under rolloutpolicy/agents: see `kubectl everynode doctor`"},
	} {
		cluster := fakecluster.New(t, append(updated(t, 1), c.policy)...)
		err := cluster.Run(t, status.New, "agent", "--exit-status", "--timeout", "300ms")
		if got := cluster.Out.String(); options.Code(err) != c.code || !strings.Contains(got, "\n"+c.says) {
			t.Errorf("%s: code %d (%v), want %d and %q:\n%s", name, options.Code(err), err, c.code, c.says, got)
		}
	}
}

// The policy is read again before the end is reported: what was read before may be seconds old. If that fails, the end is not known; without the right to read policies, nothing else can be known.
func TestExitStatusReadsThePolicyAgain(t *testing.T) {
	complete := func(clienttesting.Action) (bool, runtime.Object, error) { return false, nil, nil }
	answer := func(err error) clienttesting.ReactionFunc {
		return func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err }
	}
	soaking := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &unstructured.UnstructuredList{Object: map[string]any{"kind": "RolloutPolicyList", "apiVersion": "everynode.dev/v1alpha1"},
			Items: []unstructured.Unstructured{*reported(t, v1alpha1.PhaseSoaking, v1alpha1.EnforcementFull)}}, nil
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "everynode.dev", Resource: "rolloutpolicies"}, "", nil)
	for name, c := range map[string]struct {
		first, later clienttesting.ReactionFunc
		code         int
		says         string
		note         bool
	}{
		"complete":                  {complete, complete, options.ExitOK, "finished: ", false},
		"it soaks by now":           {complete, soaking, options.ExitUnfinished, "rolling: ", false},
		"no answer the second time": {complete, answer(errors.New("timeout")), options.ExitUnfinished, "rolling: default/ads/agent: it is not known whether the rollout has ended", false},
		"no answer at all":          {answer(errors.New("timeout")), answer(errors.New("timeout")), options.ExitUnfinished, "rolling: default/ads/agent: it is not known whether the rollout has ended", true},
		"no right to read policies": {answer(forbidden), answer(forbidden), options.ExitOK, "finished: ", true},
	} {
		cluster := fakecluster.New(t, append(updated(t, 2), reported(t, v1alpha1.PhaseComplete, v1alpha1.EnforcementFull))...)
		var reads atomic.Int32
		cluster.Dynamic.PrependReactor("list", "rolloutpolicies", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if reads.Add(1) == 1 {
				return c.first(action)
			}
			return c.later(action)
		})
		err := cluster.Run(t, status.New, "agent", "--exit-status", "--timeout", "300ms")
		if got := cluster.Out.String(); options.Code(err) != c.code || !strings.Contains(got, "\n"+c.says) {
			t.Errorf("%s: code %d (%v), want %d and %q:\n%s", name, options.Code(err), err, c.code, c.says, got)
		}
		if note := "it is not known whether rollout policies apply"; strings.Contains(cluster.Err.String(), note) != c.note {
			t.Errorf("%s: the notes are %q", name, cluster.Err.String())
		}
	}
}

// A rollout that only a user can continue shows the reason and the remedy while it is waited for, and at the end: a pipeline has no other picture of it.
func TestExitStatusOfARolloutThatIsStopped(t *testing.T) {
	invalid := strings.Replace(policySpec, "spec:", "spec:\n  windows: [{schedule: 0 22 * *, duration: 1h}]", 1)
	deleted := "the rollout policy that governed the daemon set was deleted in the middle of a rollout: create a rollout policy for the set, or remove the annotation everynode.dev/committed from its ControllerRevisions"
	for name, c := range map[string]struct {
		policies []string
		want     string
	}{
		"deleted":   {nil, deleted},
		"invalid":   {[]string{invalid}, "; nothing starts before a user corrects the policy, with kubectl edit rolloutpolicy agents"},
		"suspended": {[]string{strings.Replace(policySpec, "spec:", "spec:\n  suspend: true", 1)}, "nothing starts before a user resumes the policy, with kubectl everynode resume rolloutpolicy/agents"},
		"conflict": {[]string{policySpec, strings.Replace(policySpec, "name: agents", "name: others", 1)},
			"More than one policy applies to the daemon set: agents, others. Change their targets so that one remains; nothing starts before one policy remains: "},
		"soaking": {[]string{policySpec + policyStatus}, ""},
	} {
		cluster := fakecluster.New(t, governed(t, c.policies...)...)
		err := cluster.Run(t, status.New, "agent", "--exit-status", "--timeout", "300ms")
		if options.Code(err) != options.ExitUnfinished {
			t.Errorf("%s: %v", name, err)
		}
		got := cluster.Out.String()
		first, last, _ := strings.Cut(got, "\n")
		for _, part := range []string{first, last} {
			if _, text, is := strings.Cut(part, "stopped: "); is != (c.want != "") || !strings.Contains(text, c.want) {
				t.Errorf("%s: %q is not in:\n%s", name, c.want, got)
			}
		}
		if name == "invalid" && !strings.Contains(first, "stopped: The policy cannot be followed: spec.windows[0]") {
			t.Errorf("%s: it does not name the field:\n%s", name, got)
		}
	}
}
