// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/test/harness"
)

const threeWaves = `
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: agents}
spec:
  targets: [{apiVersion: apps/v1, kind: DaemonSet, name: ds}]
  waves:
  - {name: canary, nodes: {count: 1}, soak: 3s, after: [{type: Approval}]}
  - {name: half, nodes: {percent: 50}, soak: 4s}
`

const approval = `
apiVersion: everynode.dev/v1alpha1
kind: RolloutApproval
metadata: {name: canary}
spec: {policy: agents, set: ds, wave: canary, revision: %s, decision: Approve%s}
`

// TestSmokePolicy rolls a DaemonSet in three waves: one node, half of the nodes, the rest.
func TestSmokePolicy(t *testing.T) {
	c := cluster(t)
	onlyEverynode(t, c, "only Everynode has rollout policies")
	const nodes = 10
	s := c.Space(t, nodes)
	must(t, s, threeWaves, "apply", "-f", "-")
	s.Run("ds", harness.WithBudget("100%", "0"))
	s.Kubectl("wait", "--for=condition=Ready", "rolloutpolicy/agents", "--timeout=30s")
	s.Poll("the revision is committed", phaseIs(s, "Complete"))

	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("the canary is updated", updated(1))
	s.Poll("the canary waits for an approval", phaseIs(s, "WaitingForApproval"))
	for until := time.Now().Add(8 * time.Second); time.Now().Before(until); time.Sleep(200 * time.Millisecond) { // nothing moves without an approval
		if err := updated(1)(s.View()); err != nil {
			t.Fatal(err)
		}
	}
	policyRights(t, s)
	revision := jsonPath(s, "rolloutpolicy/agents", "{.status.sets[0].targetRevision}")
	if out, err := s.KubectlWith(fmt.Sprintf(approval, revision, ", by: somebody-else"), "apply", "-f", "-"); err == nil {
		t.Errorf("an approval in the name of another user is accepted: %s", out)
	}
	must(t, s, fmt.Sprintf(approval, revision, ""), "apply", "-f", "-")
	s.Wait("the roll ends", harness.RolledOut("ds", written.Generation, nodes))
	s.Poll("the revision is committed", phaseIs(s, "Complete"))
	checkWaves(t, s.View().Pods("ds"))
	if state := jsonPath(s, "rolloutapproval/canary", "{.status.state}"); state != "Valid" {
		t.Errorf("the approval is %q", state)
	}
	s.Wait("each step has an event", harness.HasEvent("ds", "Normal", "RolloutWaveStarted"), harness.HasEvent("ds", "Normal", "RolloutSoakStarted"),
		harness.HasEvent("ds", "Warning", "RolloutApprovalNeeded"), harness.HasEvent("ds", "Normal", "RolloutCommitted"))

	t.Run("DeletedInTheMiddle", func(t *testing.T) { policyDeleted(t, s.In(t), nodes) })
}

// policyDeleted: a policy that is deleted in the middle of a rollout releases nothing, until a user removes the marks.
func policyDeleted(t *testing.T, s *harness.Space, nodes int) {
	written := s.Update("ds", harness.WithImage(harness.Image3))
	s.Wait("the canary is updated", runningImage(harness.Image3, 1))
	s.Kubectl("delete", "rolloutpolicy", "agents")
	for until := time.Now().Add(6 * time.Second); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		if err := runningImage(harness.Image3, 1)(s.View()); err != nil {
			t.Fatal(err)
		}
	}
	s.Kubectl("annotate", "controllerrevisions", "--all", "everynode.dev/committed-")
	s.Wait("the roll ends without a policy", harness.RolledOut("ds", written.Generation, nodes), runsImage("ds", harness.Image3))
}

// policyRights: a user who may edit policies may not approve.
func policyRights(t *testing.T, s *harness.Space) {
	s.Kubectl("create", "rolebinding", "editor", "--clusterrole=edit", "--user=editor")
	s.Kubectl("create", "rolebinding", "approver", "--clusterrole=everynode-approver", "--user=approver")
	may := func(user, verb, resource string) string {
		out, _ := s.KubectlWith("", "auth", "can-i", verb, resource, "--as", user)
		return strings.TrimSpace(out)
	}
	s.Poll("the roles are aggregated", func() error {
		for _, c := range []struct{ user, verb, resource, want string }{
			{"editor", "create", "rolloutpolicies", "yes"}, {"editor", "get", "rolloutapprovals", "yes"}, {"editor", "create", "rolloutapprovals", "no"},
			{"approver", "create", "rolloutapprovals", "yes"}, {"approver", "update", "rolloutpolicies", "no"},
			{"approver", "get", "daemonsets.apps", "yes"}, {"approver", "get", "daemonsets.apps.kruise.io", "yes"}, {"approver", "update", "daemonsets.apps", "no"},
		} {
			if got := may(c.user, c.verb, c.resource); !strings.HasPrefix(got, c.want) {
				return fmt.Errorf("%s may %s %s: %s, want %s", c.user, c.verb, c.resource, got, c.want)
			}
		}
		return nil
	})
}

// checkWaves finds the waves in the times when pods were created.
func checkWaves(t *testing.T, pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	created := func(i int) time.Time { return pods[i].CreationTimestamp.Time }
	if gap := created(1).Sub(created(0)); gap < 8*time.Second {
		t.Errorf("the second wave began %s after the first", gap)
	}
	ready := time.Time{}
	for _, p := range pods[1:5] {
		for _, condition := range p.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.LastTransitionTime.After(ready) {
				ready = condition.LastTransitionTime.Time
			}
		}
	}
	if gap := created(5).Sub(ready); gap < 3*time.Second { // times are full seconds
		t.Errorf("the third wave began %s after the second was available", gap)
	}
	if gap := created(4).Sub(created(1)); gap > 3*time.Second {
		t.Errorf("the second wave took %s", gap)
	}
}

// TestApprovalsThatAreRejected by the API server: one of a wave that names none would have no effect.
func TestApprovalsThatAreRejected(t *testing.T) {
	c := cluster(t)
	onlyEverynode(t, c, "only Everynode has rollout policies")
	s := c.Space(t, 0)
	const missing = "the decisions Approve and Promote need a wave"
	for spec, want := range map[string]string{
		"decision: Approve":              missing,
		"decision: Promote, wave: ''":    missing,
		"decision: Approve, wave: a":     "",
		"decision: Promote, wave: a":     "",
		"decision: Reject":               "",
		"decision: Undo":                 "",
		"decision: Retry":                "",
		"decision: Postpone, wave: soon": "Unsupported value",
	} {
		manifest := fmt.Sprintf("apiVersion: everynode.dev/v1alpha1\nkind: RolloutApproval\nmetadata: {name: x}\nspec: {policy: agents, set: ds, revision: ds-1, %s}\n", spec)
		out, err := s.KubectlWith(manifest, "create", "--dry-run=server", "-f", "-")
		if text := out + fmt.Sprint(err); (err != nil) != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %q", spec, text, want)
		}
	}
}

// TestPoliciesThatAreRejected by the API server, with the reason.
func TestPoliciesThatAreRejected(t *testing.T) {
	c := cluster(t)
	onlyEverynode(t, c, "only Everynode has rollout policies")
	s := c.Space(t, 0)
	for spec, want := range map[string]string{
		"targets: []": "at least 1 items",
		"targets: [{apiVersion: apps/v1, kind: DaemonSet}]":                                                                                                "exactly one of name and selector",
		"targets: [{apiVersion: apps/v1, kind: Deployment, name: x}]":                                                                                      "Unsupported value",
		"{targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}], waves: [{name: remaining, nodes: {count: 1}}]}":                                      "choose another name",
		"{targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}], waves: [{name: a, nodes: {count: 1, percent: 2}}]}":                                  "at most one of count and percent",
		"{targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}], waves: [{name: a, nodes: {}}]}":                                                      "one of selector, count and percent",
		"{targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}], waves: [{name: a, nodes: {count: 1}, soak: soon}]}":                                  "must be a duration of at most 99999h, such as 30s, 10m or 24h",
		"{targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}], waves: [{name: a, nodes: {count: 1}, soak: 99999999999999h}]}":                       "spec.waves[0].soak",
		"{targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}, {apiVersion: apps/v1, kind: DaemonSet, name: x}]}":                                    "two targets name the same daemon set",
		"{targets: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, name: x}, {apiVersion: apps.kruise.io/v1alpha1, kind: DaemonSet, name: x}]}":     "two targets name the same daemon set",
		"{targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}], pace: {maxUpgrading: 0}}":                                                            "must be a number from 1",
		"{targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}], pace: {maxUpgrading: 200%}}":                                                         "must be a number from 1",
		"{targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}], freezes: [{from: 2026-02-01T00:00:00Z, to: 2026-01-01T00:00:00Z}]}":                  "from must be before to",
		"{targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}], failure: {action: Stop}}":                                                            "Unsupported value",
		"{targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}], waves: [{name: a, nodes: {count: 1}, after: [{type: Approval, remindAfter: 1ms}]}]}": "must be a duration from 1s to 99999h",
	} {
		if spec[0] != '{' {
			spec = "{" + spec + "}"
		}
		manifest := "apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: bad}\nspec: " + spec
		out, err := s.KubectlWith(manifest, "create", "--dry-run=server", "-f", "-")
		if text := out + fmt.Sprint(err); err == nil || !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %q", spec, text, want)
		}
	}
	for _, spec := range []string{
		"{targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}, {apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, name: x}, {apiVersion: apps/v1, kind: DaemonSet, selector: {}}]}",
		"{targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}], unreachableAfter: 8760h, waves: [{name: a, nodes: {count: 1}, soak: 1209600s}, {name: b, nodes: {percent: 10}, soak: 1h30m0.5s}]}",
	} {
		must(t, s, "apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: good}\nspec: "+spec, "create", "--dry-run=server", "-f", "-")
	}
}

// TestPolicySamplesAreAccepted by the API server.
func TestPolicySamplesAreAccepted(t *testing.T) {
	c := cluster(t)
	onlyEverynode(t, c, "only Everynode has rollout policies")
	s := c.Space(t, 0)
	files, err := filepath.Glob("../../docs/samples/policies/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d samples: %v", len(files), err)
	}
	for _, file := range files {
		must(t, s, "", "create", "--dry-run=server", "--filename", file)
	}
}

func must(t *testing.T, s *harness.Space, input string, args ...string) {
	t.Helper()
	if out, err := s.KubectlWith(input, args...); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func jsonPath(s *harness.Space, object, path string) string {
	out, _ := s.KubectlWith("", "get", object, "-o", "jsonpath="+path)
	return strings.TrimSpace(out)
}

// phaseIs is met when the policy reports that phase of its only set.
func phaseIs(s *harness.Space, phase string) func() error {
	return func() error {
		if got := jsonPath(s, "rolloutpolicy/agents", "{.status.sets[0].phase}"); got != phase {
			return fmt.Errorf("the phase is %q, want %q", got, phase)
		}
		return nil
	}
}

// updated is met when that many pods run the second image.
func updated(count int) harness.Condition { return runningImage(harness.Image2, count) }

func runningImage(image string, count int) harness.Condition {
	return func(v harness.View) error {
		n := 0
		for _, p := range v.Pods("ds") {
			if p.Spec.Containers[0].Image == image {
				n++
			}
		}
		if n != count {
			return fmt.Errorf("%d pods have image %s, want %d", n, image, count)
		}
		return nil
	}
}
