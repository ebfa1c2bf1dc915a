// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// agent is the set that the pages on migration and on plans are about, and the label of its pods.
const agent = "agent"

// allOfTen is the row of a set whose ten nodes all have a pod that is up to date and available.
const allOfTen = `^agent +(10 +){5}`

// TestPageMigration types docs/migration.md: there and back by the verb, and then by hand, while every pod stays.
func TestPageMigration(t *testing.T) {
	u := opens(t, "docs/migration.md", "native,kruise")
	u.Type("sed s/sample/agent/g docs/samples/daemonset.yaml | kubectl create -f -")
	before := u.runs(agent, agentOne, u.nodes)
	u.types("kubectl everynode migrate daemonset/agent --dry-run", "would become", "(server dry run)")
	u.types("kubectl everynode migrate daemonset/agent", "manages the pods now")
	u.Type("kubectl everynode migrate ads/agent")
	u.stays(before, u.runs(agent, agentOne, u.nodes))

	manifests := u.manifests()
	u.mentioned("kubectl rollout status daemonset/agent", "", "successfully rolled out")
	u.types("kubectl get daemonset agent -o yaml > agent.yaml")
	u.rewrites("apps.kruise.io/v1beta1", manifests[0])
	u.mentioned("kubectl create --dry-run=server -f agent.yaml", "", "created (server dry run)")
	u.types("kubectl delete daemonset agent --cascade=orphan --wait", "deleted")
	u.types("kubectl create -f agent.yaml", "created")
	u.typesUntil("kubectl get ads agent", allOfTen, 1)
	u.types("kubectl patch ads agent --type=merge", "patched")

	u.types("kubectl wait --for=condition=Progressing=false ads/agent", "condition met")
	u.stays(before, u.runs(agent, agentOne, u.nodes))
	u.types("kubectl get pods -l app=agent,lifecycle.apps.kruise.io/state=PreparingDelete", "No resources found")
	u.Type("kubectl get ads agent -o yaml > agent.yaml")
	u.rewrites("apps/v1", manifests[1], "burstReplicas", "lifecycle", "scaleStrategy")
	u.mentioned("kubectl create --dry-run=server -f agent.yaml", "", "created (server dry run)")
	u.mentioned("kubectl delete ads agent --cascade=orphan --wait", "", "deleted")
	u.mentioned("kubectl create -f agent.yaml", "", "created")
	u.mentioned("kubectl get daemonset agent", "", agent)
	u.TypeUntil("kubectl get daemonset agent", lines(allOfTen, 1))
	u.types("kubectl patch daemonset agent --type=merge", "patched")
	u.observed(agent)
	u.stays(before, u.runs(agent, agentOne, u.nodes))

	for _, begins := range []string{
		"kubectl -n kruise-system scale ", "kubectl delete mutatingwebhookconfiguration ", "kubectl delete validatingwebhookconfiguration ",
		"kubectl apply --server-side ", "kubectl get ads -A -o json | jq ",
	} {
		u.leaves(begins)
	}
	u.storesTheOlderVersion()
	u.leaves("kubectl everynode adopt openyurt --dry-run")
	u.leaves("kubectl everynode adopt openyurt")
	u.closes()
}

// storesTheOlderVersion types what has all objects stored as v1alpha1, for a definition that has nothing else, while a set runs.
func (u *typist) storesTheOlderVersion() {
	u.t.Helper()
	const older, all = "older", `^older +(10 +){5}`
	u.Type("sed -e s,apps/v1,apps.kruise.io/v1beta1, -e s/sample/older/g docs/samples/daemonset.yaml | kubectl create -f -")
	before := u.runs(older, "registry.example/older:1", u.nodes)
	u.types("kubectl patch crd daemonsets.apps.kruise.io --type=json", "patched")
	u.types("kubectl get daemonsets.v1beta1.apps.kruise.io -A -o json | kubectl replace", "older replaced")
	u.types("kubectl patch crd daemonsets.apps.kruise.io --subresource=status", "patched")
	u.TypeUntil("kubectl get crd daemonsets.apps.kruise.io -o jsonpath='{.status.storedVersions}'", func(out string) error { return shows(out, `["v1alpha1"]`) })
	u.TypeUntil("kubectl get ads older", lines(all, 1))
	u.TypeUntil("kubectl get daemonsets.v1alpha1.apps.kruise.io older", lines("^older ", 1))
	u.stays(before, u.runs(older, "registry.example/older:1", u.nodes))
}

// manifests are what the page says of manifests: what to add to each of the two.
func (u *typist) manifests() []map[string]any {
	u.t.Helper()
	var all []map[string]any
	for _, fence := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(u.page.Text, -1) {
		var one map[string]any
		if err := yaml.Unmarshal([]byte(fence[1]), &one); err != nil {
			u.t.Fatalf("%s: %v\n%s", u.page.Name, err, fence[1])
		}
		all = append(all, one)
	}
	if len(all) != 2 {
		u.t.Fatalf("%s has %d parts of manifests, and this test knows 2", u.page.Name, len(all))
	}
	return all
}

// rewrites makes of agent.yaml, as it was read from the cluster, the manifest of the other kind, as the page describes it: without the fields of the
// specification that the other kind has not, and with what is added.
func (u *typist) rewrites(apiVersion string, added map[string]any, gone ...string) {
	u.t.Helper()
	file, object := u.Path("agent.yaml"), &unstructured.Unstructured{}
	raw, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(raw, &object.Object)
	}
	if err != nil {
		u.t.Fatal(err)
	}
	object.SetAPIVersion(apiVersion)
	object.Object["metadata"] = map[string]any{"name": object.GetName(), "namespace": object.GetNamespace()} // it has no labels
	delete(object.Object, "status")
	for _, field := range gone {
		unstructured.RemoveNestedField(object.Object, "spec", field)
	}
	if len(gone) > 0 {
		for _, field := range []string{"rollingUpdateType", "selector", "partition", "paused"} {
			unstructured.RemoveNestedField(object.Object, "spec", "updateStrategy", "rollingUpdate", field)
		}
	}
	merge(object.Object, added)
	if raw, err = yaml.Marshal(object.Object); err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		u.t.Fatal(err)
	}
}

// merge writes what is added into a manifest, field by field.
func merge(manifest, added map[string]any) {
	for key, value := range added {
		have, isMap := manifest[key].(map[string]any)
		if more, both := value.(map[string]any); both && isMap {
			merge(have, more)
			continue
		}
		manifest[key] = value
	}
}
