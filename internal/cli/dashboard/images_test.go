// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// A plan for the images of several containers has all of them, and what is applied is what was planned.
func TestAPlanForTwoImages(t *testing.T) {
	r := roll()
	template := r.Template("registry.example/agent:2")
	spec := template["spec"].(map[string]any)
	spec["containers"] = append(spec["containers"].([]any), map[string]any{"name": "sidecar", "image": "registry.example/sidecar:2"})
	r.Spec = map[string]any{"template": template}
	cluster := zoned(t, r)
	if err := cluster.Dynamic.Tracker().Create(policies.Resource(), fakecluster.Object(t, rolloutPolicy), "default"); err != nil {
		t.Fatal(err)
	}
	flags := map[string]string{"image": "agent=x:3\nsidecar=y:3"}
	a := &toApply{stored: patches(cluster), window: open(t, cluster), request: map[string]any{"verb": "plan", "namespace": "default", "set": "ads/agent", "flags": flags}}
	planned := a.post(t, verbPath)
	if want := "kubectl everynode plan -n default --image=agent=x:3 --image=sidecar=y:3 ads/agent"; planned.Error != "" || planned.Line != want {
		t.Fatalf("%s with the line %q, want %q", planned.Error, planned.Line, want)
	}
	a.request["verb"], a.request["plan"] = "apply", planned.Data
	a.request["flags"] = map[string]string{"image": "agent=x:3"}
	if got := a.post(t, applyPath); !strings.Contains(got.Error, "is not the one of these values") {
		t.Errorf("with one of two images: %+v", got)
	}
	a.request["flags"] = flags
	if got := a.post(t, applyPath); got.Error != "" || *a.stored != 1 {
		t.Errorf("%+v: stored %d times", got, *a.stored)
	}
	a.edit(t, schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "daemonsets"}, "agent", func(u *unstructured.Unstructured) {
		containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		for i, want := range []string{"x:3", "y:3"} {
			if image := containers[i].(map[string]any)["image"]; image != want {
				t.Errorf("the image of container %d is %v, want %s", i, image, want)
			}
		}
	})
}
