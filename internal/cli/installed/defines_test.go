// SPDX-License-Identifier: Apache-2.0

package installed_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
	"everynode.dev/everynode/internal/cli/installed"
)

// TestDefines: what a definition says counts, and not its label alone, which stays when another definition is applied over it.
func TestDefines(t *testing.T) {
	for _, name := range []string{"daemonsets", "imagepulljobs", "nodeimages"} {
		data, err := config.Kruise.ReadFile("kruise/00-crd-" + name + ".apps.kruise.io.yaml")
		crd := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(data, &crd.Object)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !installed.Defines(crd) {
			t.Errorf("Everynode's definition of %s is somebody else's", name)
		}
		over := crd.DeepCopy()
		versions := over.Object["spec"].(map[string]any)["versions"].([]any)
		schema := versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		schema["description"] = "DaemonSet is the Schema for the daemonsets API"
		if installed.Defines(over) {
			t.Errorf("OpenKruise's definition of %s is Everynode's for its label", name)
		}
		crd.SetLabels(nil)
		if installed.Defines(crd) {
			t.Errorf("a definition of %s without the label is Everynode's", name)
		}
	}
}
