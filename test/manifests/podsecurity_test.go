// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"embed"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
)

// read reads an object of a file. A field that it does not have is an error.
func read(t *testing.T, from embed.FS, name string, object any) {
	t.Helper()
	data, err := fs.ReadFile(from, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, object); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// refusals are the reasons for which a level of Pod Security refuses a pod of the template, with what an API server fills in.
func refusals(t *testing.T, level api.Level, template *corev1.PodTemplateSpec) []string {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	defaults.SetObjectDefaults_Pod(pod)
	at := api.LevelVersion{Level: level, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(at, &pod.ObjectMeta, &pod.Spec))
	slices.Sort(result.ForbiddenReasons)
	return result.ForbiddenReasons
}

// levelOf is the level that a namespace enforces.
func levelOf(t *testing.T, from embed.FS, name string) api.Level {
	t.Helper()
	namespace := corev1.Namespace{}
	read(t, from, name, &namespace)
	levels, errs := api.PolicyToEvaluate(namespace.Labels, api.Policy{})
	if len(errs) > 0 {
		t.Fatalf("%s: %v", name, errs.ToAggregate())
	}
	return levels.Enforce.Level
}

func managerTemplate(t *testing.T) *corev1.PodTemplateSpec {
	t.Helper()
	manager := appsv1.Deployment{}
	read(t, config.Manager, "manager/deployment.yaml", &manager)
	return &manager.Spec.Template
}

// TestManagerIsRestricted: a pod of the manager gets into a namespace with the strictest level, and its own has that level.
func TestManagerIsRestricted(t *testing.T) {
	if level := levelOf(t, config.Install, "install/00-namespace.yaml"); level != api.LevelRestricted {
		t.Errorf("the namespace of the manager enforces %s", level)
	}
	if why := refusals(t, api.LevelRestricted, managerTemplate(t)); len(why) > 0 {
		t.Errorf("a pod of the manager is refused: %q", why)
	}
}

// TestRestrictedRefuses shows that the test before it can fail.
func TestRestrictedRefuses(t *testing.T) {
	for want, change := range map[string]func(*corev1.PodSpec){
		"host namespaces":                   func(s *corev1.PodSpec) { s.HostPID = true },
		"runAsNonRoot != true":              func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = nil },
		"allowPrivilegeEscalation != false": func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
		"unrestricted capabilities":         func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Capabilities = nil },
		"seccompProfile":                    func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = nil },
	} {
		template := managerTemplate(t)
		change(&template.Spec)
		if why := refusals(t, api.LevelRestricted, template); !slices.Equal(why, []string{want}) {
			t.Errorf("the reasons are %q, want %s", why, want)
		}
	}
}

// TestAgentNeedsExactlyThis: what an agent may beyond the strictest level is one list, which docs/security.md gives the reasons of.
func TestAgentNeedsExactlyThis(t *testing.T) {
	if level := levelOf(t, config.Agent, "agent/00-namespace.yaml"); level != api.LevelPrivileged {
		t.Errorf("the namespace of the agents enforces %s", level)
	}
	agent := appsv1.DaemonSet{}
	read(t, config.Agent, "agent/30-daemonset.yaml", &agent)
	why := refusals(t, api.LevelRestricted, &agent.Spec.Template)
	want := []string{"host namespaces", "hostPort", "probe or lifecycle host", "restricted volume types", "runAsNonRoot != true", "runAsUser=0"}
	if !slices.Equal(why, want) {
		t.Errorf("an agent needs %q beyond restricted, want %q", why, want)
	}
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range why {
		if !strings.Contains(string(text), "| `"+reason+"` |") {
			t.Errorf("docs/security.md does not say why an agent needs %q: add a line to its table", reason)
		}
	}
}
