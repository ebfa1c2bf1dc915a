// SPDX-License-Identifier: Apache-2.0

package edit_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files")

const advanced = `
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: agent, namespace: default, uid: uid-ads, resourceVersion: "7"}
spec:
  selector: {matchLabels: {app: agent}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      initContainers: [{name: init, image: "registry.example/init:1"}]
      containers: [{name: agent, image: "registry.example/agent:2"}, {name: side, image: "registry.example/side:1"}]
`

const native = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: plain, namespace: default, uid: uid-ds, resourceVersion: "8"}
spec:
  selector: {matchLabels: {app: plain}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}
  template:
    metadata: {labels: {app: plain}}
    spec: {containers: [{name: plain, image: "registry.example/plain:2"}]}
`

// set is a manifest with fields changed: paths with dots, and values as YAML.
func set(t *testing.T, manifest string, fields ...string) *unstructured.Unstructured {
	t.Helper()
	object := fakecluster.Object(t, manifest)
	for _, field := range fields {
		path, text, _ := strings.Cut(field, "=")
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if number, ok := value.(float64); ok {
			value = int64(number)
		}
		if err := unstructured.SetNestedField(object.Object, value, strings.Split(path, ".")...); err != nil {
			t.Fatal(err)
		}
	}
	return object
}

// applied says that another manager has applied these fields.
func applied(object *unstructured.Unstructured, manager, fields string) *unstructured.Unstructured {
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: object.GetAPIVersion(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}})
	return object
}

func revisionOf(owner *unstructured.Unstructured, number int64, image string) *appsv1.ControllerRevision {
	template := map[string]any{
		"metadata": map[string]any{"creationTimestamp": nil, "labels": map[string]any{"app": owner.GetName()}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": owner.GetName(), "image": image}}}, "$patch": "replace",
	}
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	if err != nil {
		panic(err)
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("%s-%d", owner.GetName(), number), Labels: map[string]string{"app": owner.GetName()},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())},
		},
		Revision: number, Data: runtime.RawExtension{Raw: raw},
	}
}

func labelled(node *corev1.Node, key string) *corev1.Node {
	node.Labels[key] = "true"
	return node
}

// session plays command lines one after the other to one cluster.
func session(t *testing.T, cluster *fakecluster.Cluster, lines ...string) string {
	t.Helper()
	return cluster.Session(t, command.Root, lines...)
}

func TestScreens(t *testing.T) {
	const owner = `{"f:spec":{"f:updateStrategy":{"f:rollingUpdate":{".":{},"f:paused":{}}},"f:template":{"f:spec":{"f:containers":{}}}}}`
	for name, play := range map[string]func(t *testing.T) string{
		"pause": func(t *testing.T) string {
			return session(t, fakecluster.New(t, set(t, advanced), set(t, native)),
				"pause ads/agent", "pause agent", "resume agent", "resume agent", "pause agent --dry-run", "pause agent --dry-run=client -o wide",
				"pause agent -o yaml", "pause plain", "resume daemonset/plain", "pause nobody", "pause agent --dry-run=later", "pause")
		},
		"suspend": func(t *testing.T) string {
			policy := func(name string, suspend bool) *unstructured.Unstructured {
				return fakecluster.Object(t, fmt.Sprintf("apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: %s, namespace: default, resourceVersion: \"3\"}\n"+
					"spec: {suspend: %t, targets: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, name: agent}, {apiVersion: apps/v1, kind: DaemonSet, name: plain}]}\n"+
					"status: {sets: [{apiVersion: apps.kruise.io/v1beta1, name: agent}, {apiVersion: apps/v1, name: plain}]}\n", name, suspend))
			}
			text := session(t, fakecluster.New(t, set(t, advanced), set(t, native), policy("agents", false)),
				"suspend agent --dry-run", "suspend agent", "suspend agent", "resume plain", "suspend rop/agents", "resume rolloutpolicy/agents", "resume rolloutpolicy/agents",
				"pause agent", "suspend agents", "resume agents --dry-run", "resume agent", "resume agent", "resume plain", "suspend rop/nothing", "resume rop/nothing", "suspend nothing", "suspend rop/", "suspend deploy/x", "suspend")
			text += session(t, fakecluster.New(t, set(t, advanced)), "suspend agent")
			text += session(t, fakecluster.New(t, set(t, advanced)).WithoutPolicies(), "suspend agent", "suspend rop/agents", "resume agent")
			return text + session(t, fakecluster.New(t, set(t, advanced), policy("a", true), policy("b", true)), "suspend agent", "resume agent")
		},
		"suspend-none": func(t *testing.T) string {
			return session(t, fakecluster.New(t, set(t, advanced), fakecluster.Object(t, "apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: agents, namespace: default, resourceVersion: \"3\"}\n"+
				"spec: {targets: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, name: agent}, {apiVersion: apps/v1, kind: DaemonSet, name: plain}]}\n"+
				"status: {sets: [{apiVersion: apps.kruise.io/v1beta1, name: agent, enforcement: None, blocking: [{reason: NotServed, message: 'Another controller keeps the pods.'}]}, "+
				"{apiVersion: apps/v1, name: plain, enforcement: Full}]}\n")), "suspend agent", "resume agent", "suspend rop/agents")
		},
		"suspend-conflict": func(t *testing.T) string {
			return session(t, fakecluster.New(t, set(t, advanced), fakecluster.Object(t, "apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: agents, namespace: default, resourceVersion: \"3\"}\n"+
				"spec: {targets: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, name: agent}]}\n"+
				"status: {sets: [{apiVersion: apps.kruise.io/v1beta1, name: agent, enforcement: Full, phase: Stalled, blocking: [{reason: Conflict, message: 'More than one policy applies to the daemon set: agents, others.'}]}]}\n")),
				"suspend rop/agents", "resume agents")
		},
		"pause-ondelete": func(t *testing.T) string {
			return session(t, fakecluster.New(t, set(t, advanced, "spec.updateStrategy.type=OnDelete")), "pause agent", "canary agent a=b", "partition agent 1")
		},
		"partition": func(t *testing.T) string {
			return session(t, fakecluster.New(t, set(t, advanced), set(t, native)),
				"partition agent 3", "partition agent 90%", "partition agent 0", "partition agent -1", "partition agent 101%", "partition agent many",
				"partition plain 1", "partition agent", "partition agent 007", "partition agent 050%", "partition agent 99999999999",
				"canary agent a=b", "canary agent --off", "pause agent", "resume agent", "canary agent a=b", "resume agent")
		},
		"canary": func(t *testing.T) string {
			return session(t, fakecluster.New(t, set(t, advanced), set(t, native), labelled(fakecluster.Node("n1", true), "canary"), fakecluster.Node("n2", true)),
				"canary agent canary=true", "canary agent 'zone in (a,b),!old'", "canary agent --off", "canary agent --off", "canary agent a=b --off",
				"canary agent", "canary agent ''", "canary agent 'a in b'", "canary plain canary=true",
				"canary agent canary=true", "pause agent", "canary agent --off", "canary agent 'zone=a,disk!=old'")
		},
		"restart": func(t *testing.T) string {
			return session(t, fakecluster.New(t, set(t, advanced), set(t, native)), "restart agent", "restart plain", "pause agent", "restart agent --dry-run=client")
		},
		"restart-inplace": func(t *testing.T) string {
			const inPlace = "spec.updateStrategy.rollingUpdate.rollingUpdateType=InPlaceIfPossible"
			text := session(t, fakecluster.New(t, set(t, advanced, inPlace), set(t, native)), "restart agent", "restart agent --in-place",
				"restart agent --in-place --container side --container agent", "restart agent --in-place --container init", "restart agent --container side",
				"restart plain --in-place", "restart agent --in-place --dry-run=client -o yaml")
			// One was asked for by a clock that is ahead; and there is a sidecar.
			text += session(t, fakecluster.New(t, set(t, advanced, inPlace, `spec.template.metadata.annotations={everynode.dev/restarted-at: "2026-03-01T14:00:00+01:00", everynode.dev/restarted-containers: side}`,
				`spec.template.spec.initContainers=[{name: init, image: "i:1", restartPolicy: Always}]`, "spec.updateStrategy.rollingUpdate.paused=true")),
				"restart agent --in-place", "restart agent --in-place --container init")
			text += session(t, fakecluster.New(t, set(t, advanced, inPlace, `spec.template.spec.containers=[{name: agent, image: "i:1", lifecycle: {preStop: {sleep: {seconds: 1}}}}, {name: side, image: "i:1"}]`)),
				"restart agent --in-place", "restart agent --in-place --container side")
			text += session(t, fakecluster.New(t, set(t, advanced, "spec.updateStrategy.type=OnDelete")), "restart agent --in-place")
			return text + session(t, fakecluster.New(t, set(t, advanced)), "restart agent --in-place")
		},
		"set-image": func(t *testing.T) string {
			held := set(t, advanced, "spec.updateStrategy.rollingUpdate.partition=2", "spec.updateStrategy.rollingUpdate.selector={matchLabels: {a: b}}")
			return session(t, fakecluster.New(t, held, set(t, native, "spec.updateStrategy={type: OnDelete}")),
				"set-image agent agent=registry.example/agent:3 init=registry.example/init:2", "set-image agent agent=registry.example/agent:3",
				"set-image plain plain=registry.example/plain:3 -o wide", "set-image plain *=registry.example/plain:4",
				"set-image agent other=registry.example/agent:3", "set-image agent agent=Registry/Agent:3", "set-image agent agent", "set-image agent agent=a agent=b")
		},
		"openyurt": func(t *testing.T) string {
			by := func(strategy string) *unstructured.Unstructured {
				object := set(t, native, "spec.updateStrategy={type: OnDelete}")
				object.SetAnnotations(map[string]string{"apps.openyurt.io/update-strategy": strategy})
				return object
			}
			text := ""
			for _, strategy := range []string{"AdvancedRollingUpdate", "ota", "other"} {
				object := by(strategy)
				text += session(t, fakecluster.New(t, object, revisionOf(object, 1, "registry.example/plain:1"), revisionOf(object, 2, "registry.example/plain:2")),
					"undo plain", "restart plain")
			}
			return text
		},
		"last-applied": func(t *testing.T) string {
			object := set(t, native)
			object.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{"template":{"spec":{"containers":[{"name":"plain","image":"registry.example/plain:2"}]}}}}`})
			return session(t, fakecluster.New(t, object), "set-image plain plain=registry.example/plain:3", "restart plain")
		},
		"made-elsewhere": func(t *testing.T) string {
			by := func(manifest string, labels, annotations map[string]string) *unstructured.Unstructured {
				object := set(t, manifest)
				object.SetLabels(labels)
				object.SetAnnotations(annotations)
				return object
			}
			text := session(t, fakecluster.New(t, by(advanced, nil, map[string]string{"meta.helm.sh/release-name": "agents"})), "pause agent", "pause agent", "resume agent -o json")
			text += session(t, fakecluster.New(t, by(native, nil, map[string]string{"argocd.argoproj.io/tracking-id": "edge:apps/DaemonSet:default/plain"})), "restart plain --dry-run")
			text += session(t, fakecluster.New(t, by(native, map[string]string{"kustomize.toolkit.fluxcd.io/name": "edge"}, nil)), "set-image plain plain=registry.example/plain:3")
			return text + session(t, fakecluster.New(t, by(native, map[string]string{"helm.toolkit.fluxcd.io/name": "edge"}, map[string]string{"meta.helm.sh/release-name": "agents"})), "restart plain")
		},
		"undo": func(t *testing.T) string {
			object := set(t, native)
			return session(t, fakecluster.New(t, object, revisionOf(object, 1, "registry.example/plain:0"), revisionOf(object, 2, "registry.example/plain:1"),
				revisionOf(object, 3, "registry.example/plain:2")),
				"undo plain --dry-run", "undo plain", "undo plain", "undo plain --to-revision 1", "undo plain --to-revision 1", "undo plain --to-revision 9", "undo plain --to-revision=-1")
		},
		"undo-nothing": func(t *testing.T) string {
			object := set(t, native)
			return session(t, fakecluster.New(t, object, set(t, advanced), revisionOf(object, 1, "registry.example/plain:2")), "undo plain", "undo agent", "undo agent --to-revision 2")
		},
		"owned": func(t *testing.T) string {
			return session(t, fakecluster.New(t, applied(set(t, advanced, "spec.updateStrategy.rollingUpdate.paused=false"), "argocd-controller", owner)),
				"pause agent", "pause agent --dry-run", "partition agent 1", "set-image agent agent=registry.example/agent:3", "pause agent --force-conflicts")
		},
		"owned-native": func(t *testing.T) string {
			const fields = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"plain\"}":{".":{},"f:image":{},"f:name":{}}}}}}}`
			return session(t, fakecluster.New(t, applied(set(t, native), "flux", fields)),
				"set-image plain plain=registry.example/plain:3", "restart plain", "set-image plain plain=registry.example/plain:3 --force-conflicts")
		},
		"pre-delete": hookSession,
		"pre-delete-nothing": func(t *testing.T) string {
			return session(t, fakecluster.New(t, set(t, advanced)), "pre-delete release --all", "pre-delete release --all -o json", "pre-delete release --all ads/agent -o yaml")
		},
	} {
		t.Run(name, func(t *testing.T) { fakecluster.Golden(t, *update, name+".txt", play(t)) })
	}
}

// hookSession has pods that are held by a label, by a finalizer, by both, and by nothing.
func hookSession(t *testing.T) string {
	hooked := set(t, advanced, `spec.lifecycle={preDelete: {labelsHandler: {example.io/block: "true"}, finalizersHandler: [example.io/unready]}}`)
	pod := func(node string, edit func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "agent-" + node, UID: "uid-1", ResourceVersion: "9", Labels: map[string]string{"app": "agent", "example.io/block": "true"},
				Annotations:     map[string]string{},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(hooked, hooked.GroupVersionKind())},
			},
			Spec: corev1.PodSpec{NodeName: node},
		}
		edit(p)
		return p
	}
	preparing := func(p *corev1.Pod) {
		p.Labels["lifecycle.apps.kruise.io/state"] = "PreparingDelete"
		p.Annotations["lifecycle.apps.kruise.io/timestamp"] = "2026-03-01T11:59:00Z"
	}
	cluster := fakecluster.New(t, hooked, set(t, native), pod("n1", func(*corev1.Pod) {}), pod("n2", preparing),
		pod("n3", func(p *corev1.Pod) { preparing(p); p.Finalizers = []string{"example.io/unready", "example.io/other"} }),
		pod("n4", func(p *corev1.Pod) {
			p.Finalizers, p.DeletionTimestamp = []string{"example.io/unready"}, &metav1.Time{Time: fakecluster.Now()}
		}),
	)
	return session(t, cluster,
		"pre-delete list", "pre-delete list -A -o wide", "pre-delete list n2 -o json", "pre-delete list n1", "pre-delete list n9", "pre-delete list daemonset/plain",
		"pre-delete release", "pre-delete release n1", "pre-delete release n2 n9", "pre-delete release n2 --dry-run", "pre-delete release n2",
		"pre-delete release pod/agent-n3 ads/agent", "pre-delete release --all -o json", "pre-delete what",
		"pre-delete release --all n2", "pre-delete release --all node/n2 pod/agent-n3 ads/agent", "pre-delete release /n2",
		"pre-delete list agent", "pre-delete release agent", "pre-delete release --all agent --dry-run", "pre-delete release --all plain", "pre-delete release --all nobody")
}

// What cannot be meant is told before the cluster is asked, so also where there is none, or no such set.
func TestWrongArgumentsNeedNoCluster(t *testing.T) {
	for line, want := range map[string]string{
		"partition agent -1":            `the partition "-1" is neither a number of nodes from 0 nor a percentage from 0% to 100%: write 10 or 90%`,
		"partition agent -0":            `the partition "-0" is neither a number`,
		"partition agent -10%":          `the partition "-10%" is neither a number`,
		"partition agent +1":            `the partition "+1" is neither a number`,
		"partition agent 120%":          `the partition "120%" is neither a number`,
		"partition agent 1 --x":         "unknown flag: --x",
		"partition agent 1 -x":          "unknown shorthand flag: 'x' in -x",
		"canary agent a==b==c":          `the selector "a==b==c" cannot be read: `,
		"partition agent 99999999999":   "the partition 99999999999 is too large: the largest number",
		"pause /agent":                  `"/agent" does not name a daemon set: `,
		"undo agent --to-revision -1":   "--to-revision is -1: use a number of the history",
		"set-image agent agent":         `"agent" does not give a container an image: write CONTAINER=IMAGE`,
		"pause a/b/c":                   `"a/b/c" does not name a daemon set: `,
		"canary deploy/agent a=b":       `"deploy" is not a kind of daemon set: `,
		"restart agent --dry-run=later": `--dry-run "later" is not known: `,
	} {
		cluster := fakecluster.New(t)
		err := cluster.Run(t, command.Root, strings.Fields(line)...)
		if options.Code(err) != options.ExitUsage || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v (code %d), want %s", line, err, options.Code(err), want)
		}
		if asked := slices.Concat(cluster.Dynamic.Actions(), cluster.Kubernetes.Actions()); len(asked) > 0 {
			t.Errorf("%s: the cluster was asked: %v", line, asked)
		}
	}
}

// In the middle of a roll the status of a set changes all the time: what is to be changed is read again, and nobody's change is lost.
func TestAnotherWriteMeanwhile(t *testing.T) {
	cluster := fakecluster.New(t, set(t, advanced))
	sets := schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "daemonsets"}
	tried := 0
	cluster.Dynamic.PrependReactor("patch", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if tried++; tried > 1 {
			return false, nil, nil
		}
		object := set(t, advanced, "spec.minReadySeconds=5")
		object.SetResourceVersion("8")
		if err := cluster.Dynamic.Tracker().Update(sets, object, "default"); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewConflict(sets.GroupResource(), "agent", errors.New("the object has been modified"))
	})
	got := session(t, cluster, "pause agent")
	if tried != 2 || !strings.Contains(got, "daemonset.apps.kruise.io/agent paused\n") || !strings.Contains(got, `"resourceVersion":"8"`) {
		t.Errorf("after %d tries:\n%s", tried, got)
	}
	object, err := cluster.Dynamic.Tracker().Get(sets, "default", "agent")
	if err != nil {
		t.Fatal(err)
	}
	if ready, _, _ := unstructured.NestedInt64(object.(*unstructured.Unstructured).Object, "spec", "minReadySeconds"); ready != 5 {
		t.Errorf("minReadySeconds is %d, want 5", ready)
	}
}

// A set that was deleted and made anew is another one.
func TestMadeAgainMeanwhile(t *testing.T) {
	cluster := fakecluster.New(t, set(t, advanced))
	sets := schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "daemonsets"}
	cluster.Dynamic.PrependReactor("patch", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := cluster.Dynamic.Tracker().Update(sets, set(t, advanced, "metadata.uid=uid-of-another"), "default"); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewConflict(sets.GroupResource(), "agent", errors.New("the object has been modified"))
	})
	if got := session(t, cluster, "pause agent"); !strings.Contains(got, "was recreated; review it") {
		t.Error(got)
	}
}

func TestWithoutTheRight(t *testing.T) {
	cluster := fakecluster.New(t, set(t, advanced))
	cluster.Dynamic.PrependReactor("patch", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "apps.kruise.io", Resource: "daemonsets"}, "agent", errors.New(`User "jane" cannot patch resource "daemonsets" in API group "apps.kruise.io" in the namespace "default"`))
	})
	if got := session(t, cluster, "pause agent"); !strings.Contains(got, `you are not allowed to patch daemonsets.apps.kruise.io default/agent: ask for the verb "patch"`) {
		t.Error(got)
	}
}

func TestCompletion(t *testing.T) {
	object := set(t, native)
	for line, want := range map[string]string{
		"restart ":                   "ads/agent agent daemonset/plain plain",
		"pause ":                     "ads/agent agent",
		"resume ":                    "ads/agent agent daemonset/plain plain",
		"partition ":                 "ads/agent agent",
		"canary ":                    "ads/agent agent",
		"canary agent ":              "",
		"set-image agent ":           "agent= init= side=",
		"restart agent --container ": "agent side",
		"undo plain --to-revision ":  "2 1",
		"pre-delete release ":        "ads/agent n1",
		"pre-delete list ":           "ads/agent n1",
		"plan agent --image ":        "agent= init= side=",
		"pause agent --dry-run=":     "none server client",
		"ota upgrade ":               "ads/agent daemonset/plain n1",
		"ota pull n1 ":               "ads/agent daemonset/plain n1",
		"ota list ads/agent ":        "n1",
		"set-image agent agent=":     "",
	} {
		cluster := fakecluster.New(t, object, set(t, advanced), fakecluster.Node("n1", true), revisionOf(object, 1, "registry.example/plain:1"), revisionOf(object, 2, "registry.example/plain:2"))
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		if err := cluster.Run(t, command.Root, args...); err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(strings.Fields(cluster.Out.String()), func(word string) bool { return strings.HasPrefix(word, ":") })
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestUndoUnderAPolicy: it names the waves and the approvals of a rollout to an earlier revision, and not those of a return to the committed one, or of a policy that cannot be followed.
func TestUndoUnderAPolicy(t *testing.T) {
	const governs = `
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: plains, namespace: default, uid: uid-policy}
spec:
  targets: [{apiVersion: apps/v1, kind: DaemonSet, name: plain}]
  waves: [{name: canary, nodes: {count: 1}, after: [{type: Approval}]}]
status:
  sets: [{apiVersion: apps/v1, name: plain, enforcement: Full, phase: Complete, targetRevision: COMMITTED, committedRevision: COMMITTED}]
`
	const want = "rolloutpolicy/plains rolls this out like any other revision, because it is not the committed one (waves: canary, remaining); " +
		"these waves need an approval: canary, with `kubectl everynode approve daemonset/plain`"
	object := set(t, native)
	old := revisionOf(object, 1, "registry.example/plain:1")
	for committed, waves := range map[string]bool{"plain-other": true, old.Name: false} {
		for _, line := range []string{"undo plain --dry-run", "undo plain"} {
			cluster := fakecluster.New(t, set(t, native), old, revisionOf(object, 2, "registry.example/plain:2"), fakecluster.Object(t, strings.ReplaceAll(governs, "COMMITTED", committed)))
			if got := session(t, cluster, line); strings.Contains(got, want) != waves {
				t.Errorf("%s, committed %s:\n%s", line, committed, got)
			}
		}
	}
	invalid := strings.NewReplacer("COMMITTED", "plain-other", "spec:\n", "spec:\n  windows: [{schedule: 0 22 * *, duration: 1h}]\n").Replace(governs)
	cluster := fakecluster.New(t, set(t, native), old, revisionOf(object, 2, "registry.example/plain:2"), fakecluster.Object(t, invalid))
	if got := session(t, cluster, "undo plain"); strings.Contains(got, "rolls this out") {
		t.Errorf("a policy that cannot be followed:\n%s", got)
	}
}
