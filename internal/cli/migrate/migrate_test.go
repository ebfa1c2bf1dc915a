// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files")

const native = `
apiVersion: apps/v1
kind: DaemonSet
metadata:
  {name: agent, namespace: default, uid: uid-native, generation: 3, labels: {team: a}, annotations: {deprecated.daemonset.template.generation: "3", mine: "yes"}}
spec:
  selector: {matchLabels: {app: agent}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 10%, maxSurge: 0}}
  minReadySeconds: 5
  revisionHistoryLimit: 10
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: agent, image: "registry.example/agent:1"}]}}
status: {observedGeneration: 3, updatedNumberScheduled: 5, desiredNumberScheduled: 5}
`

const advanced = `
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata:
  {name: agent, namespace: default, uid: uid-advanced, generation: 3, annotations: {daemonset.kruise.io/progressive-create-pod: "true", everynode.dev/max-replacing: "3"}}
spec:
  selector: {matchLabels: {app: agent}}
  burstReplicas: 250
  scaleStrategy: {}
  lifecycle: {preDelete: {labelsHandler: {a: b}}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxSurge: 1, partition: 0, paused: false}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: agent, image: "registry.example/agent:1"}]}}
status: {observedGeneration: 3, updatedNumberScheduled: 5, desiredNumberScheduled: 5}
`

func object(t *testing.T, manifest string, edits ...func(map[string]any)) *unstructured.Unstructured {
	t.Helper()
	o := fakecluster.Object(t, manifest)
	for _, edit := range edits {
		edit(o.Object)
	}
	return o
}

// at sets a field; the path has dots.
func at(path string, value any) func(map[string]any) {
	return func(o map[string]any) {
		if err := unstructured.SetNestedField(o, value, strings.Split(path, ".")...); err != nil {
			panic(err)
		}
	}
}

// controlled is a cluster in which somebody looks after new sets: it finds that many of five nodes to be up to date.
func controlled(t *testing.T, updated int64, objects ...runtime.Object) *fakecluster.Cluster {
	t.Helper()
	c := fakecluster.New(t, objects...)
	c.HonourDryRun(t)
	c.Dynamic.PrependReactor("create", "daemonsets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		a := action.(clienttesting.CreateActionImpl)
		if len(a.CreateOptions.DryRun) > 0 {
			return false, nil, nil
		}
		made := a.Object.(*unstructured.Unstructured).DeepCopy()
		made.SetUID("uid-new")
		made.SetGeneration(1)
		if updated >= 0 {
			made.Object["status"] = map[string]any{"observedGeneration": int64(1), "updatedNumberScheduled": updated, "desiredNumberScheduled": int64(5)}
		}
		return true, made, c.Dynamic.Tracker().Create(a.Resource, made, a.Namespace)
	})
	return c
}

// brief leaves out what dry runs send, which is what is sent afterwards, and what is in ConfigMaps but once.
func brief(text string) string {
	var kept []string
	records, skipped := 0, false
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "-> ") {
			skipped = strings.Contains(line, "(dry run)")
			if strings.HasPrefix(line, "-> create configmaps") && !skipped {
				records++
				skipped = records > 1
			}
		}
		if !skipped || !strings.HasPrefix(line, "   ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func TestScreens(t *testing.T) {
	owner := func(o map[string]any) {
		(&unstructured.Unstructured{Object: o}).SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.io/v1", Kind: "Agent", Name: "all", UID: "u"}})
	}
	for name, play := range map[string]func(t *testing.T) string{
		"to-advanced": func(t *testing.T) string {
			return controlled(t, 5, object(t, native)).Session(t, command.Root, "migrate agent --dry-run", "migrate agent", "migrate agent", "migrate daemonset/agent --dry-run",
				"migrate agent --back --dry-run=client -o yaml")
		},
		"to-native": func(t *testing.T) string {
			return controlled(t, 5, object(t, advanced)).Session(t, command.Root, "migrate agent", "migrate agent --back", "migrate ads/agent --drop-fields -o json", "migrate ads/agent")
		},
		"ondelete": func(t *testing.T) string {
			set := object(t, native, at("spec.updateStrategy", map[string]any{"type": "OnDelete"}), at("status.updatedNumberScheduled", int64(2)))
			return controlled(t, 2, set).Session(t, command.Root, "migrate agent")
		},
		"openyurt": func(t *testing.T) string {
			set := object(t, native, at("metadata.annotations", map[string]any{"apps.openyurt.io/update-strategy": "OTA", "meta.helm.sh/release-name": "agents", corev1.LastAppliedConfigAnnotation: "{}"}))
			set.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "flux", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{}}}`)}})
			return controlled(t, 5, set).Session(t, command.Root, "migrate agent", "migrate agent --drop-fields --dry-run=client")
		},
		"refused": func(t *testing.T) string {
			text := ""
			for _, set := range []*unstructured.Unstructured{
				object(t, native, at("status.updatedNumberScheduled", int64(3))), object(t, native, at("metadata.generation", int64(4))),
				object(t, native, owner), object(t, native, at("metadata.finalizers", []any{"example.io/hold"})),
				object(t, native, at("spec.newField", "x")),
			} {
				text += controlled(t, 5, set).Session(t, command.Root, "migrate agent --timeout 1ms")
			}
			text += controlled(t, 5, object(t, native)).WithoutKruise().Session(t, command.Root, "migrate agent")
			return text + controlled(t, 5, object(t, native), object(t, advanced)).Session(t, command.Root, "migrate agent", "migrate ds/agent")
		},
		"not-up-to-date": func(t *testing.T) string {
			return controlled(t, 3, object(t, native)).Session(t, command.Root, "migrate agent --timeout 1ms", "migrate agent --dry-run", "migrate agent --back")
		},
		"nobody-looks": func(t *testing.T) string {
			return controlled(t, -1, object(t, native)).Session(t, command.Root, "migrate agent --timeout 1ms")
		},
	} {
		t.Run(name, func(t *testing.T) { fakecluster.Golden(t, *update, name+".txt", brief(play(t))) })
	}
}

// A record is a ConfigMap, which people can edit: what is no set any more is told, and nothing is done with it.
func TestDamagedRecords(t *testing.T) {
	for _, damaged := range []string{
		"", "x", "{}", "kind: DaemonSet", "{apiVersion: apps/v1, kind: DaemonSet}", "{apiVersion: apps/v1, kind: DaemonSet, spec: []}",
		"{apiVersion: apps/v1, kind: DaemonSet, spec: {updateStrategy: OnDelete}}", "{apiVersion: apps/v1, kind: DaemonSet, spec: {template: {}}}",
	} {
		record := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "everynode-migration-agent"},
			Data:       map[string]string{"old.yaml": native, "oldUID": "uid-native", "new.yaml": damaged},
		}
		c := controlled(t, 5, object(t, native), record)
		err := c.Run(t, command.Root, "migrate", "agent")
		if err == nil || !strings.Contains(err.Error(), "has no object in new.yaml") {
			t.Errorf("%q: %v", damaged, err)
		}
	}
}

// Whatever request is the last one that is answered, the same command goes on to the same end.
func TestInterruptedAnywhere(t *testing.T) {
	for manifest, args := range map[string][]string{native: {"migrate", "agent", "--drop-fields"}, advanced: {"migrate", "agent", "--back", "--drop-fields"}} {
		for last := 0; ; last++ {
			c := controlled(t, 5, object(t, manifest))
			var sent int
			broken := true
			cut := func(action clienttesting.Action) (bool, runtime.Object, error) {
				switch action.GetVerb() {
				case "create", "delete", "patch", "update":
					if sent++; broken && sent > last {
						return true, nil, errors.New("connection refused")
					}
				}
				return false, nil, nil
			}
			// Dry runs are counted as well: they change nothing, so what comes after them begins anew.
			c.Dynamic.PrependReactor("*", "*", cut)
			c.Kubernetes.PrependReactor("*", "*", cut)
			first := c.Run(t, command.Root, args...)
			broken = false
			if first == nil {
				if last < 5 {
					t.Errorf("%d requests were enough", last)
				}
				break
			}
			if err := c.Run(t, command.Root, args...); err != nil {
				t.Fatalf("interrupted after %d requests (%v), it does not go on: %v", last, first, err)
			}
			checkMigrated(t, c, manifest == native)
		}
	}
}

// Who is not sure whether a command has worked says it again: that must not undo it.
func TestSaidTwice(t *testing.T) {
	for line, toAdvanced := range map[string]bool{
		"agent": true, "daemonset/agent": true, "agent --back": false, "ads/agent": false, "ads/agent --back": false, "daemonset/agent --back": false,
	} {
		manifest := advanced
		if toAdvanced {
			manifest = native
		}
		c := controlled(t, 5, object(t, manifest))
		for range 2 {
			if err := c.Run(t, command.Root, append([]string{"migrate", "--drop-fields"}, strings.Fields(line)...)...); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			checkMigrated(t, c, toAdvanced)
		}
		if said := c.Out.String(); strings.Count(said, "manages the pods now") != 1 || strings.Count(said, "already: nothing to do") != 1 {
			t.Errorf("%s, said twice, says:\n%s", line, said)
		}
	}
}

// checkMigrated fails unless there is one object, of the new kind, with its own strategy, and no record.
func checkMigrated(t *testing.T, c *fakecluster.Cluster, toAdvanced bool) {
	t.Helper()
	get := func(group, version string) (*unstructured.Unstructured, error) {
		resource := schema.GroupVersionResource{Group: group, Version: version, Resource: "daemonsets"}
		return c.Dynamic.Resource(resource).Namespace("default").Get(context.Background(), "agent", metav1.GetOptions{})
	}
	old, gone := get("apps", "v1")
	made, err := get("apps.kruise.io", "v1beta1")
	if !toAdvanced {
		old, gone, made, err = made, err, old, gone
	}
	if !apierrors.IsNotFound(gone) || err != nil {
		t.Fatalf("the old object is %v (%v), the new one: %v", old, gone, err)
	}
	paused, _, _ := unstructured.NestedBool(made.Object, "spec", "updateStrategy", "rollingUpdate", "paused")
	kind, _, _ := unstructured.NestedString(made.Object, "spec", "updateStrategy", "type")
	if paused || kind != "RollingUpdate" {
		t.Errorf("it is still held: %v", made.Object["spec"])
	}
	records, err := c.Kubernetes.CoreV1().ConfigMaps(corev1.NamespaceAll).List(context.Background(), metav1.ListOptions{})
	if err != nil || len(records.Items) > 0 {
		t.Errorf("records are left: %v (%v)", records.Items, err)
	}
}

// A set that was made anew after the interruption is not the one that was to be migrated.
func TestAnotherOldSet(t *testing.T) {
	c := controlled(t, 5, object(t, native))
	c.Dynamic.PrependReactor("delete", "daemonsets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if len(action.(clienttesting.DeleteActionImpl).DeleteOptions.DryRun) > 0 {
			return false, nil, nil
		}
		return true, nil, errors.New("connection refused")
	})
	if err := c.Run(t, command.Root, "migrate", "agent"); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Fatal(err)
	}
	sets := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
	if err := c.Dynamic.Tracker().Update(sets, object(t, native, at("metadata.uid", "uid-another")), "default"); err != nil {
		t.Fatal(err)
	}
	err := c.Run(t, command.Root, "migrate", "agent")
	if err == nil || !strings.Contains(err.Error(), "was recreated since the migration began: delete the ConfigMap everynode-migration-agent") {
		t.Fatal(err)
	}
}
