// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestUnchanged: a pod that runs what the template wants stays, once the controller knows the template, whatever its revision is.
func TestUnchanged(t *testing.T) {
	runs := func(image string) []corev1.Container { return []corev1.Container{{Name: "c", Image: image}} }
	// begin is a set that wants v2, and a pod on a that runs an image. The controller knows of the template if it has observed it.
	begin := func(image, hash string, observed int64) *story {
		s := failing("a", "b")
		s.set.Spec.Template.Spec.Containers = runs("v2")
		s.set.Generation, s.set.Status.ObservedGeneration = 7, observed
		s.putSet()
		return s.revision("r2", "h2", 2).change("old-a", func(pod *corev1.Pod) {
			pod.Labels = map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: hash}
			pod.Spec.Containers = append(runs(image), corev1.Container{Name: "mesh", Image: "m"})
		}).wait(certain)
	}
	wantInvariants(t, begin("v2", "h1", 7).terminate("old-a").judgeFailing(), Kept)
	wantInvariants(t, begin("v2", "h1", 7).terminate("old-a").judgeFailing("old-a"))
	wantInvariants(t, begin("v2", "h1", 6).terminate("old-a").judgeFailing())
	wantInvariants(t, begin("v1", "h1", 7).terminate("old-a").judgeFailing())
	wantInvariants(t, begin("v2", "", 7).terminate("old-a").judgeFailing())
	wantInvariants(t, begin("v2", "h1", 7).create("twin", "a").terminate("old-a").judgeFailing(), OnePod)
	// A revision that was deleted leaves an older one as the newest, and its pods are old all the same.
	wantInvariants(t, begin("v1", "h2", 7).terminate("old-a").judgeFailing())
}
