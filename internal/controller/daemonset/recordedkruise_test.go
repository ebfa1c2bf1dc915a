// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/revision"
)

// kruiseRecording is what a running OpenKruise wrote; see testdata/openkruise/README.md.
func kruiseRecording(t *testing.T) *recording {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "openkruise", "2026-07.json"))
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{}
	if err := json.Unmarshal(text, r); err != nil || len(r.Sets) != 3 || len(r.Revisions) != 3 || len(r.Pods) != 3 {
		t.Fatalf("%d sets, %d revisions, %d pods (%v)", len(r.Sets), len(r.Revisions), len(r.Pods), err)
	}
	return r
}

// takenFromKruise is a world in which Everynode takes over a set of the recording, on the node of its pod.
func takenFromKruise(t *testing.T, name string) *advanced {
	t.Helper()
	r, a := kruiseRecording(t), newAdvanced(t, 0, standard)
	a.set = r.last(name)
	a.key.Namespace, a.key.Name = a.set.GetNamespace(), name
	a.clock.SetTime(a.set.GetCreationTimestamp().Add(time.Hour))
	for _, recorded := range r.Revisions {
		if controls(a.set, recorded) {
			recorded.ResourceVersion = a.next()
			recorded.Data.Raw = compacted(t, recorded.Data)
			a.revisions[recorded.Name] = recorded
		}
	}
	for _, pod := range r.Pods {
		if controls(a.set, pod) {
			a.index.PutNode(clustercache.Node{Name: pod.Spec.NodeName, RV: a.next(), Ready: true})
			a.pods[pod.Name] = pod
			a.changed(pod)
		}
	}
	a.set.SetResourceVersion(a.next())
	a.deliver()
	a.settle()
	for _, verb := range a.verbs() {
		if verb != "status" { // which has one node, and conditions
			t.Errorf("%s: Everynode has taken it over and wrote %v", name, a.log)
		}
	}
	a.forgetLog()
	return a
}

// compacted is the data of a revision as it is stored.
func compacted(t *testing.T, data runtime.RawExtension) []byte {
	t.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, data.Raw); err != nil {
		t.Fatal(err)
	}
	return compact.Bytes()
}

// edited is an edit of the set by a user, in which the webhook of Everynode sets the defaults of its template.
func (a *advanced) edited(image string) {
	a.change(func(spec map[string]any) {
		ofPod := spec["template"].(map[string]any)["spec"].(map[string]any)
		for field, value := range map[string]any{
			"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": map[string]any{},
			"terminationGracePeriodSeconds": int64(30),
		} {
			ofPod[field] = value
		}
		c := container(spec)
		c["image"], c["imagePullPolicy"], c["terminationMessagePath"], c["terminationMessagePolicy"] = image, "IfNotPresent", "/dev/termination-log", "File"
	})
}

// uid is the UID of the only pod, which has that image.
func (a *advanced) uid(image string) types.UID {
	a.t.Helper()
	if have := a.only().Spec.Containers[0].Image; have != image {
		a.t.Errorf("the pod has image %s, want %s", have, image)
	}
	return a.only().UID
}

// TestSetsOfOpenKruiseRollAndGoBack: Everynode takes over what OpenKruise wrote, and restarts nothing. It updates the pods in place, or as the strategy says by
// replacing them, although its webhook has set defaults in the template and OpenKruise none. OpenKruise finds the revision that it would write for the set, byte for
// byte, with the hash of the pods, so nothing restarts when the set goes back to it: after a roll, and when that has been undone.
func TestSetsOfOpenKruiseRollAndGoBack(t *testing.T) {
	for name, replaced := range map[string]bool{"inp": false, "std": true} {
		a := takenFromKruise(t, name)
		recorded := a.currentRevision().DeepCopy()
		original := runtime.DeepCopyJSON(a.template())
		before := a.uid("img:1")

		a.edited("img:1")
		a.settle()
		if a.uid("img:1") != before || len(a.wrote("patch"))+len(a.wrote("delete")) != 0 || !a.finds(revision.DataOfOpenKruise) {
			t.Errorf("%s: defaults are no change, and it wrote %v; OpenKruise finds its revision: %t", name, a.log, a.finds(revision.DataOfOpenKruise))
		}
		a.edited("img:2")
		a.settle()
		rolled := a.uid("img:2")
		if (rolled != before) != replaced {
			t.Errorf("%s: the pod was replaced: %t, want %t", name, rolled != before, replaced)
		}
		if !a.finds(revision.DataOfOpenKruise) {
			t.Errorf("%s: OpenKruise would replace the pod after the roll", name)
		}

		a.change(func(spec map[string]any) { spec["template"] = original })
		a.settle()
		if undone := a.uid("img:1"); (undone != rolled) != replaced {
			t.Errorf("%s: the pod was replaced by the undo: %t, want %t", name, undone != rolled, replaced)
		}
		current := a.currentRevision()
		if current.Name != recorded.Name || !bytes.Equal(current.Data.Raw, recorded.Data.Raw) || !a.finds(revision.DataOfOpenKruise) {
			t.Errorf("%s: the undo has led to revision %s with\n%s\nand OpenKruise wrote %s with\n%s", name, current.Name, current.Data.Raw, recorded.Name, recorded.Data.Raw)
		}
	}
}

// TestAHookAndAPartitionOfOpenKruise: where a partition holds the only node back, an edit changes no pod; without it the pod is changed in place, and its hook, which
// is about deletes, is not asked.
func TestAHookAndAPartitionOfOpenKruise(t *testing.T) {
	a := takenFromKruise(t, "part")
	before := a.uid("img:2")
	a.edited("img:3")
	a.settle()
	if a.uid("img:2") != before {
		t.Error("the pod was replaced")
	}
	a.change(func(spec map[string]any) {
		delete(spec["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any), "partition")
	})
	a.settle()
	if a.uid("img:3") != before || !a.finds(revision.DataOfOpenKruise) || len(a.wrote("delete")) != 0 {
		t.Errorf("it wrote %v", a.log)
	}
}

// TestAChangeOfWhatOpenKruiseWroteIsNoticed: the tests above can fail.
func TestAChangeOfWhatOpenKruiseWroteIsNoticed(t *testing.T) {
	for what, change := range map[string]func(a *advanced){
		"a byte of the data": func(a *advanced) {
			r := a.currentRevision()
			r.Data.Raw = bytes.Replace(r.Data.Raw, []byte("img:1"), []byte("img:0"), 1)
		},
		"creationTimestamp": func(a *advanced) {
			r := a.currentRevision()
			r.Data.Raw = bytes.Replace(r.Data.Raw, []byte(`"creationTimestamp":null,`), nil, 1)
		},
		"the hash of the pod": func(a *advanced) { a.relabel(appsv1.ControllerRevisionHashLabelKey) },
	} {
		a := takenFromKruise(t, "std")
		if !a.finds(revision.DataOfOpenKruise) {
			t.Fatal("OpenKruise does not find what it wrote")
		}
		change(a)
		if a.finds(revision.DataOfOpenKruise) {
			t.Errorf("%s is changed, and OpenKruise finds its revision", what)
		}
	}
	pod := takenFromKruise(t, "inp").only()
	if !slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == "KruisePodReady" }) {
		t.Error("the recorded pod has no gate of OpenKruise")
	}
}
