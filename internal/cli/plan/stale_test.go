// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// editPolicy changes a policy in the cluster.
func (p *planned) editPolicy(t *testing.T, name string, edit func(*unstructured.Unstructured)) {
	t.Helper()
	object, err := p.Dynamic.Tracker().Get(policies.Resource(), "default", name)
	if err != nil {
		t.Fatal(err)
	}
	changed := object.(*unstructured.Unstructured).DeepCopy()
	edit(changed)
	if err := p.Dynamic.Tracker().Update(policies.Resource(), changed, "default"); err != nil {
		t.Fatal(err)
	}
}

// named is a policy for the set agent with another name.
func named(name string) string {
	return strings.Replace(policyOf(threeWaves), "name: agents", "name: "+name, 1)
}

// A plan under a policy does not hold any more if another policy decides, although no node gets another verdict: what follows when is no longer what was shown.
func TestAPlanIsStaleWithAnotherPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *planned)
		says   string
	}{
		"the same": {func(*testing.T, *planned) {}, ""},
		"another status": {func(t *testing.T, p *planned) {
			p.editPolicy(t, "agents", func(u *unstructured.Unstructured) { u.SetResourceVersion("99") })
		}, ""},
		"another generation": {func(t *testing.T, p *planned) {
			p.editPolicy(t, "agents", func(u *unstructured.Unstructured) { u.SetGeneration(7) })
		}, "rolloutpolicy/agents has been changed (generation 7, not 0)"},
		"made again": {func(t *testing.T, p *planned) {
			p.editPolicy(t, "agents", func(u *unstructured.Unstructured) { u.SetUID("another") })
		}, "rolloutpolicy/agents was deleted and made again (UID another, not uid-policy)"},
		"deleted": {func(t *testing.T, p *planned) {
			if err := p.Dynamic.Tracker().Delete(policies.Resource(), "default", "agents"); err != nil {
				t.Fatal(err)
			}
		}, "rolloutpolicy/agents does not apply to the set any more"},
		"one more": {func(t *testing.T, p *planned) {
			if err := p.Dynamic.Tracker().Create(policies.Resource(), fakecluster.Object(t, named("more")), "default"); err != nil {
				t.Fatal(err)
			}
		}, "rolloutpolicy/more applies to the set now, and did not"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanned(t, newServer(t, append(settled(true, 3).Objects(t), fakecluster.Object(t, policyOf(threeWaves)))...), image3()...)
			c.change(t, p)
			err := p.Run(t, NewApply, "--plan", p.file)
			if c.says == "" {
				if err != nil || p.stored != 1 {
					t.Errorf("%d writes were stored: %v", p.stored, err)
				}
				return
			}
			is := (*StaleError)(nil)
			if !errors.As(err, &is) || options.Code(err) != options.ExitStale || p.stored > 0 {
				t.Fatalf("%d writes were stored: %v", p.stored, err)
			}
			if len(is.Changes) != 1 || is.Changes[0] != c.says || err.Error() != outdated+c.says+"; make a new one" {
				t.Errorf("it says %v, and what has changed is %q", err, is.Changes)
			}
		})
	}
}

// A plan for a policy in a file is about a policy that the cluster does not have yet, so none of the cluster makes it stale.
func TestAPlanForAPolicyInAFileIsApplied(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policyOf(threeWaves)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newPlanned(t, newServer(t, settled(true, 3).Objects(t)...), append(image3(), "--policy", file)...)
	if err := p.Dynamic.Tracker().Create(policies.Resource(), fakecluster.Object(t, policyOf(threeWaves)), "default"); err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t, NewApply, "--plan", p.file); err != nil || p.stored != 1 {
		t.Errorf("%d writes were stored: %v", p.stored, err)
	}
}

// Of many nodes the first are named, and the number of the others.
func TestManyChanges(t *testing.T) {
	p := newPlanned(t, newServer(t, settled(true, 15).Objects(t)...), image3()...)
	for i := range 15 {
		node, err := p.Kubernetes.CoreV1().Nodes().Get(t.Context(), fmt.Sprintf("node-%d", i+1), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoExecute}}
		if _, err := p.Kubernetes.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	is := (*StaleError)(nil)
	if err := p.Run(t, NewApply, "--plan", p.file); !errors.As(err, &is) || len(is.Changes) != mostDifferences+1 || is.Changes[mostDifferences] != "and 5 more" {
		t.Errorf("%v: %v", err, is)
	}
}

// A policy changes after the plan was made again: if the edit has not been sent, it is not, and otherwise it is reported.
func TestAPolicyChangesWhileThePlanIsApplied(t *testing.T) {
	const why = "rolloutpolicy/agents has been changed (generation 7, not 0)"
	for name, c := range map[string]struct {
		verb, resource string
		args           []string
		stored, code   int
		says           string
	}{
		"before the edit": {"list", "rolloutpolicies", nil, 0, options.ExitStale, outdated + why + "; make a new one"},
		"with the edit": {"patch", "daemonsets", nil, 1, options.ExitError, "the edit was made, and meanwhile " + why +
			", so the rollout may differ from the plan: follow it with `kubectl everynode status ads/agent -n default -w`"},
		"with the edit, as JSON": {"patch", "daemonsets", []string{"-o", "json"}, 1, options.ExitError, "meanwhile " + why},
		"with a dry run":         {"patch", "daemonsets", []string{"--dry-run"}, 0, options.ExitOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanned(t, newServer(t, append(settled(true, 3).Objects(t), fakecluster.Object(t, policyOf(threeWaves)))...), image3()...)
			p.tried = 0
			listed := 0
			p.Dynamic.PrependReactor(c.verb, c.resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
				if c.verb == "list" {
					listed++
				}
				if c.verb == "list" && listed == 2 || c.verb == "patch" && p.tried > 0 { // the first ones are those of the plan that is made again
					p.editPolicy(t, "agents", func(u *unstructured.Unstructured) { u.SetGeneration(7) })
				}
				return false, nil, nil
			})
			err := p.Run(t, NewApply, append([]string{"--plan", p.file}, c.args...)...)
			if p.stored != c.stored || options.Code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%d writes were stored, want %d, code %d: %v", p.stored, c.stored, options.Code(err), err)
			}
			if said := p.Out.String(); len(c.args) > 1 && !strings.Contains(said, `"policyChange": "`+why+`"`) {
				t.Errorf("it prints %s", said)
			}
		})
	}
}

// Policies that cannot be read any more are no policies that hold.
func TestPoliciesThatCannotBeReadAgain(t *testing.T) {
	p := newPlanned(t, newServer(t, append(settled(true, 3).Objects(t), fakecluster.Object(t, policyOf(threeWaves)))...), image3()...)
	listed := 0
	p.Dynamic.PrependReactor("list", "rolloutpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		listed++
		return listed > 1, nil, errors.New("connection refused")
	})
	err := p.Run(t, NewApply, "--plan", p.file)
	if options.Code(err) != options.ExitError || p.stored > 0 || !strings.Contains(err.Error(), "reading the rollout policies of the plan again: ") {
		t.Errorf("%d writes were stored, code %d: %v", p.stored, options.Code(err), err)
	}
}
