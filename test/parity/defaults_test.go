// SPDX-License-Identifier: Apache-2.0

package parity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	defaults "k8s.io/kubernetes/pkg/apis/apps/v1"

	"everynode.dev/everynode/internal/revision"
)

const sha256OfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// TestDefaultsMakeNoDifference: a template means the same before and after upstream's own code has set the defaults in it. Left out are volumes of
// plugins that are not part of Kubernetes any more, or of one cloud; templates with these may count as different.
func TestDefaultsMakeNoDifference(t *testing.T) {
	images := []string{"img", "img:latest", "host:5000/a/img", "host:5000/img:1", "img@sha256:" + sha256OfNothing, "img:latest@sha256:" + sha256OfNothing, "img:1@sha256:" + sha256OfNothing, ""}
	next := randomTemplates(20)
	for i := range 2000 {
		template := next()
		template.Spec.DeprecatedServiceAccount = "" // the API server overwrites it with the other
		for j := range template.Spec.Volumes {
			v := &template.Spec.Volumes[j].VolumeSource
			if v.Image != nil {
				v.Image.Reference = images[i%len(images)]
			}
			v.ISCSI, v.RBD, v.AzureDisk, v.ScaleIO, v.Ephemeral = nil, nil, nil, nil, nil
		}
		for j := range template.Spec.Containers {
			template.Spec.Containers[j].Image = images[(i+j)%len(images)]
		}
		for j := range template.Spec.InitContainers {
			template.Spec.InitContainers[j].Image = images[(i+j)%len(images)]
		}
		template.Spec.EphemeralContainers = nil
		before := daemonSet(t, template)
		after := before.DeepCopy()
		defaults.SetObjectDefaults_DaemonSet(after)
		a, b := undecoded(t, before), undecoded(t, after)
		if !revision.Same(a, b) {
			t.Fatalf("template %d with defaults of ours is\n%v\nand with upstream's\n%v", i, revision.WithDefaults(a), revision.WithDefaults(b))
		}
	}
	if revision.Same(undecoded(t, daemonSet(t, &corev1.PodTemplateSpec{})), undecoded(t, daemonSet(t, &corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostPID: true}}))) {
		t.Error("everything counts as the same")
	}
}
