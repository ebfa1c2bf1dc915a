// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/cli/options"
)

// testPod is the pod of helm test.
func testPod(t *testing.T, r release) *corev1.Pod {
	t.Helper()
	texts, err := r.texts(t)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(texts["everynode/templates/test.yaml"]), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestHelmTest: helm test runs a pod with the image and the account of the manager, which a restricted namespace accepts. The program takes its arguments, which are the
// settings of this release.
func TestHelmTest(t *testing.T) {
	const foreign = "daemonsets.apps.kruise.io"
	for name, c := range map[string]struct {
		release release
		want    map[string]string
	}{
		"defaults":          {release{}, map[string]string{"manager-namespace": home, "dialects": "[native,kruise]", "agent-namespace": "everynode-agents"}},
		"elsewhere":         {release{values: manyValues, namespace: "tools"}, map[string]string{"manager-namespace": "tools", "dialects": "[native,kruise,openyurt]"}},
		"without agents":    {release{values: fewValues}, map[string]string{"dialects": "[native]", "agent-namespace": ""}},
		"with OpenKruise's": {release{in: cluster{foreign: nil}}, map[string]string{"dialects": "[native]", "agent-namespace": ""}},
	} {
		pod := testPod(t, c.release)
		if pod.Annotations[hook] != "test" || len(pod.Spec.Containers) != 1 || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
			t.Fatalf("%s: got %+v", name, pod)
		}
		installed := c.release.objects(t)
		manager := installed["Deployment/"+pod.Namespace+"/everynode-manager"]
		if manager == nil || field(t, manager, "spec.template.spec.serviceAccountName") != `"`+pod.Spec.ServiceAccountName+`"` ||
			field(t, manager, "spec.template.spec.containers.0.image") != `"`+pod.Spec.Containers[0].Image+`"` {
			t.Errorf("%s: the account is %s and the image %s, which are not those of the manager", name, pod.Spec.ServiceAccountName, pod.Spec.Containers[0].Image)
		}
		cmd := doctor.NewInCluster(options.New(genericiooptions.NewTestIOStreamsDiscard()))
		args := pod.Spec.Containers[0].Args
		if err := cmd.ParseFlags(args[1:]); err != nil || args[0] != doctor.InCluster || cmd.Flags().NArg() > 0 {
			t.Errorf("%s: the arguments are %q: %v", name, args, err)
		}
		for flag, want := range c.want {
			if got := cmd.Flags().Lookup(flag).Value.String(); got != want {
				t.Errorf("%s: --%s is %s, want %s", name, flag, got, want)
			}
		}
		evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
		if err != nil {
			t.Fatal(err)
		}
		at := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
		if result := policy.AggregateCheckResults(evaluator.EvaluatePod(at, &pod.ObjectMeta, &pod.Spec)); !result.Allowed {
			t.Errorf("%s: the pod is refused: %q", name, result.ForbiddenReasons)
		}
	}
}
