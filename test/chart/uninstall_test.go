// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

// TestUninstallIsChecked: before Helm deletes anything, the program of the manager checks, with its rights, whether pods would stay out of service. Where Everynode
// serves no Advanced DaemonSets, or the value says so, there is no check.
func TestUninstallIsChecked(t *testing.T) {
	const file = "everynode/templates/uninstall.yaml"
	check := func(r release) *batchv1.Job {
		t.Helper()
		texts, err := r.texts(t)
		if err != nil {
			t.Fatal(err)
		}
		job := &batchv1.Job{}
		if err := yaml.UnmarshalStrict([]byte(texts[file]), job); err != nil {
			t.Fatal(err)
		}
		return job
	}
	job := check(release{})
	pod := job.Spec.Template.Spec
	if job.Annotations[hook] != "pre-delete" || job.Namespace != home || *job.Spec.BackoffLimit != 0 || len(pod.Containers) != 1 || !slices.Equal(pod.Containers[0].Args, []string{"check-uninstall"}) ||
		len(pod.Tolerations) == 0 || pod.Tolerations[len(pod.Tolerations)-1].Key != "everynode.dev/waits-for-daemon-pods" {
		t.Fatalf("got %+v", job)
	}
	installed := release{}.objects(t)
	if installed["ServiceAccount/"+home+"/"+pod.ServiceAccountName] == nil {
		t.Errorf("the service account %s is not installed", pod.ServiceAccountName)
	}
	for name, r := range map[string]release{
		"switched off": {values: "uninstallCheck: false"},
		"native only":  {values: "dialects: [native]"},
		"OpenKruise's": {in: cluster{"daemonsets.apps.kruise.io": nil}},
	} {
		if job := check(r); job.Name != "" {
			t.Errorf("%s: there is the Job %s", name, job.Name)
		}
	}
}
