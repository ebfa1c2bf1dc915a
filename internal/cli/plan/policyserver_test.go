// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// TestPolicyIsRefused: the API server validates the policy of a file, and its errors are shown with the name of the file, whether or not the policy exists. The server of
// this test evaluates no rules in CEL; test/manifests does.
func TestPolicyIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	wave := func(fields string) string {
		return policyOf("  waves: [{name: canary, nodes: {count: 1}, " + fields + "}]\n")
	}
	for text, want := range map[string]string{
		policyOf(threeWaves): "",
		strings.Replace(policyOf(""), "kind: DaemonSet", "kind: Daemonset", 1):                        "spec.targets[0].kind: Unsupported value",
		policyOf("  joiningNodes: latest\n"):                                                          "spec.joiningNodes: Unsupported value",
		policyOf("  readyWhen: Never\n"):                                                              "spec.readyWhen: Unsupported value",
		wave("after: [{type: Manual}]"):                                                               "spec.waves[0].after[0].type: Unsupported value",
		policyOf("  waves: [{name: canary, nodes: {count: 0}}]\n"):                                    "spec.waves[0].nodes.count: Invalid value",
		policyOf("  waves: [{name: canary, nodes: {count: 1}}, {name: canary, nodes: {count: 2}}]\n"): "spec.waves[1]: Duplicate value: \"canary\"",
	} {
		for _, stored := range []bool{false, true} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			objects := settled(true, 3).Objects(t)
			if stored {
				objects = append(objects, fakecluster.Object(t, policyOf(threeWaves)))
			}
			s := newServer(t, objects...)
			err := s.Run(t, New, "agent", "--image", "agent=registry.example/agent:3", "--policy", file)
			start := "the API server refuses the policy in " + file + ": RolloutPolicy.everynode.dev \"agents\" is invalid: " + want
			if want == "" && (err != nil || strings.Contains(s.Out.String(), "has not validated")) || want != "" && (err == nil || !strings.HasPrefix(err.Error(), start)) {
				t.Errorf("%s\nstored %t: %v, want %s", text, stored, err, start)
			}
		}
	}
}

// TestPolicyCannotBeValidated: where the API server cannot be asked, the plan is made, and a warning says why.
func TestPolicyCannotBeValidated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policyOf(threeWaves)), 0o600); err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupResource{Group: "everynode.dev", Resource: "rolloutpolicies"}
	const unvalidated = "the API server has not validated the policy in "
	for name, c := range map[string]struct {
		answer        error
		absent, local bool
		stored        bool
		warns, fails  string
	}{
		"validated": {},
		"local":     {local: true, warns: "--local uses no dry run on the server"},
		"no CRD":    {absent: true, warns: "this cluster has no rollout policies: install their CRDs"},
		"no patch":  {answer: apierrors.NewForbidden(resource, "agents", errors.New(`User "jane" cannot patch resource "rolloutpolicies"`)), stored: true, warns: `ask for the verb "patch" on "rolloutpolicies.everynode.dev"`},
		"no create": {answer: apierrors.NewForbidden(resource, "agents", errors.New(`User "jane" cannot create resource "rolloutpolicies"`)), warns: `ask for the verb "create" on "rolloutpolicies.everynode.dev"`},
		"busy":      {answer: apierrors.NewServiceUnavailable("try again"), warns: "create rolloutpolicies.everynode.dev default/agents: try again"},
		"webhook with side effects": {
			answer: apierrors.NewBadRequest(`admission webhook "audit.example" does not support dry run`), warns: `admission webhook "audit.example" does not support dry run`,
		},
		"webhook that is down": {answer: apierrors.NewInternalError(errors.New(`failed calling webhook "audit.example"`)), warns: `failed calling webhook "audit.example"`},
		"admission":            {answer: apierrors.NewForbidden(resource, "agents", errors.New("a policy denies it")), fails: "the API server refuses the policy in " + file + ": "},
		"strict":               {answer: apierrors.NewBadRequest("strict decoding error"), fails: "the API server refuses the policy in " + file + ": strict decoding error"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, settled(true, 3).Objects(t)...)
			if c.absent {
				s.WithoutPolicies()
			}
			verb := "create"
			if c.stored {
				verb = "patch"
				if err := s.Dynamic.Tracker().Create(policies.Resource(), fakecluster.Object(t, policyOf(threeWaves)), "default"); err != nil {
					t.Fatal(err)
				}
			}
			if c.answer != nil {
				s.Dynamic.PrependReactor(verb, "rolloutpolicies", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.answer })
			}
			args := []string{"agent", "--image", "agent=registry.example/agent:3", "--policy", file}
			if c.local {
				args = append(args, "--local")
			}
			err := s.Run(t, New, args...)
			out := s.Out.String()
			if c.fails != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.fails) {
					t.Errorf("%v, want %s", err, c.fails)
				}
				return
			}
			if err != nil || strings.Contains(out, unvalidated) != (c.warns != "") || !strings.Contains(out, c.warns) || !strings.Contains(out, "Rollout policy agents (from the file):") {
				t.Errorf("%v, it prints\n%s\nwant %s", err, out, c.warns)
			}
		})
	}
}

// TestPolicyThatCannotBeListed: where it is not known that the policy exists, the answer of the server shows it, and the policy is validated as an edit of the one that exists.
func TestPolicyThatCannotBeListed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policyOf(threeWaves)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, append(settled(true, 3).Objects(t), fakecluster.Object(t, policyOf(threeWaves)))...)
	resource := schema.GroupResource{Group: "everynode.dev", Resource: "rolloutpolicies"}
	s.Dynamic.PrependReactor("list", "rolloutpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(resource, "", errors.New(`User "jane" cannot list resource "rolloutpolicies"`))
	})
	if err := s.Run(t, New, "agent", "--image", "agent=registry.example/agent:3", "--policy", file); err != nil || strings.Contains(s.Out.String(), "has not validated") {
		t.Errorf("%v, it prints\n%s", err, s.Out)
	}
}
