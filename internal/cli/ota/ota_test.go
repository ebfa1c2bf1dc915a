// SPDX-License-Identifier: Apache-2.0

package ota_test

import (
	"flag"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files")

func set(t *testing.T, apiVersion, name, more string) *unstructured.Unstructured {
	t.Helper()
	return fakecluster.Object(t, "apiVersion: "+apiVersion+"\nkind: DaemonSet\nmetadata: {name: "+name+", namespace: default, uid: uid-"+name+"}\n"+
		"spec:\n  selector: {matchLabels: {app: "+name+"}}\n  updateStrategy: {type: "+more+"}\n")
}

// pod is a pod of a set; words are what it says, as TYPE=STATUS:REASON:REVISION.
func pod(owner *unstructured.Unstructured, node, hash string, words ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: owner.GetName() + "-" + node, UID: types.UID("uid-" + owner.GetName() + "-" + node),
			Labels:          map[string]string{"app": owner.GetName(), appsv1.ControllerRevisionHashLabelKey: hash},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())},
		},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, word := range words {
		kind, rest, _ := strings.Cut(word, "=")
		parts := strings.Split(rest, ":")
		c := corev1.PodCondition{Type: corev1.PodConditionType(kind), Status: corev1.ConditionStatus(parts[0]), Reason: parts[1]}
		if parts[2] != "" {
			c.Message = "controllerrevision: " + parts[2]
		}
		p.Status.Conditions = append(p.Status.Conditions, c)
	}
	return p
}

func revisionOf(owner *unstructured.Unstructured, number int64, hash, image string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: owner.GetName() + "-" + hash, Labels: map[string]string{"app": owner.GetName(), appsv1.ControllerRevisionHashLabelKey: hash},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())},
		},
		Revision: number, Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"agent","image":"` + image + `"}]}}}}`)},
	}
}

func deleting(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: fakecluster.Now()}, []string{"example.io/held"}
	return p
}

// TestScreens plays to pods in all states: of a DaemonSet with OTA, of an Advanced one with OnDelete, and of one that its controller updates.
func TestScreens(t *testing.T) {
	edge, onDelete, rolling := set(t, "apps/v1", "edge", "OnDelete"), set(t, "apps.kruise.io/v1beta1", "agent", "OnDelete"), set(t, "apps.kruise.io/v1beta1", "roll", "RollingUpdate")
	objects := []runtime.Object{
		edge, onDelete, rolling,
		pod(edge, "n1", "old", "PodNeedUpgrade=True::new"), pod(edge, "n2", "new", "PodNeedUpgrade=False::new"),
		pod(edge, "n3", "old", "PodNeedUpgrade=True::new", "PodImageReady=False::new"),
		pod(edge, "n4", "old", "PodNeedUpgrade=True::new", "PodImageReady=True:PullImageSuccess:new"),
		pod(edge, "n5", "old", "PodNeedUpgrade=True::new", "PodImageReady=False:PullImageFail:new"),
		pod(edge, "n6", "old", "PodNeedUpgrade=True::new", "PodImageReady=True:PullImageSuccess:old"),
		pod(edge, "n7", "old", "PodNeedUpgrade=True::"), deleting(pod(edge, "n8", "old", "PodNeedUpgrade=True::new")), pod(edge, "n9", "old"),
		// Two revisions say the same, as where another version of the API has named one of them.
		pod(onDelete, "n1", "a"), pod(onDelete, "n2", "b"), pod(onDelete, "n3", "b2"),
		revisionOf(onDelete, 1, "a", "registry.example/agent:1"), revisionOf(onDelete, 2, "b", "registry.example/agent:2"), revisionOf(onDelete, 3, "b2", "registry.example/agent:2"),
		pod(rolling, "n1", "a"),
	}
	for _, node := range []string{"n1", "n3", "n5"} {
		objects = append(objects, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "everynode-agents", Name: "agent-" + node, Labels: map[string]string{"app.kubernetes.io/name": "everynode-agent"}},
			Spec:       corev1.PodSpec{NodeName: node},
		})
	}
	for name, lines := range map[string][]string{
		"list": {
			"ota list", "ota list -A", "ota list --all ads/agent", "ota list n1 -o yaml", "ota list n2", "ota list n10", "ota list daemonset/edge ads/agent", "ota what",
		},
		"upgrade": {
			"ota upgrade n1 --dry-run", "ota upgrade n1 --dry-run=client -o wide", "ota upgrade n1", "ota upgrade edge-n2", "ota upgrade n2", "ota upgrade n3",
			"ota upgrade n4 daemonset/edge", "ota upgrade n5", "ota upgrade n6", "ota upgrade n7", "ota upgrade n8", "ota upgrade pod/edge-n9", "ota upgrade node/edge-n4",
			"ota upgrade", "ota upgrade ads/agent",
		},
		"upgrade-all": {"ota upgrade --all ads/agent", "ota upgrade --all ads/agent", "ota upgrade --all ads/agent -o json", "ota upgrade --all", "ota upgrade --all", "ota upgrade --all n1", "ota pull --all pod/edge-n1 daemonset/edge"},
		"pull": {
			"ota pull n1 --dry-run", "ota pull n1", "ota pull n1", "ota pull n2", "ota pull n3", "ota pull n5 n6", "ota pull n7", "ota list daemonset/edge",
			"ota pull --all ads/agent", "ota pull --all ads/agent", "ota pull --all ads/agent -o yaml",
		},
		"bare": {
			"ota list agent", "ota upgrade agent", "ota upgrade n1 agent --dry-run", "ota upgrade --all agent --dry-run", "ota pull --all agent", "ota upgrade agent roll",
			"ota upgrade --all agent roll", "ota upgrade --all agent n1", "ota upgrade --all nobody", "ota list nobody", "ota list edge", "ota upgrade --all edge", "ota upgrade edge",
		},
		"rolling": {
			"ota list ads/roll", "ota list ads/roll -o json", "ota list --all ads/roll", "ota upgrade --all ads/roll", "ota pull --all ads/roll -o json", "ota upgrade n1 ads/roll", "ota list ads/done",
			"ota upgrade --all ads/done", "ota list daemonset/by-hand", "ota upgrade --all daemonset/by-hand",
		},
		"unsaid": {"ota list quiet", "ota list --all quiet", "ota upgrade n2 daemonset/quiet", "ota upgrade n1 daemonset/quiet", "ota pull --all quiet", "ota list rolled", "ota upgrade n1 daemonset/rolled", "ota upgrade --all rolled", "ota upgrade --all --dry-run"},
	} {
		t.Run(name, func(t *testing.T) {
			var copies []runtime.Object
			if name == "rolling" {
				copies = append(copies, set(t, "apps.kruise.io/v1beta1", "done", "OnDelete"), set(t, "apps/v1", "by-hand", "OnDelete")) // that have no pods
			}
			if name == "bare" {
				copies = append(copies, fakecluster.Node("edge", true)) // as one of the sets
			}
			if name == "unsaid" { // of which no controller has its pods say anything
				quiet := set(t, "apps/v1", "quiet", "OnDelete")
				quiet.SetAnnotations(map[string]string{"apps.openyurt.io/update-strategy": "OTA"})
				rolled := set(t, "apps/v1", "rolled", "RollingUpdate")
				rolled.SetAnnotations(quiet.GetAnnotations())
				copies = append(copies, rolled, pod(rolled, "n1", "a"), revisionOf(rolled, 1, "a", "registry.example/agent:1"), revisionOf(rolled, 2, "b", "registry.example/agent:2"))
				copies = append(copies, quiet, pod(quiet, "n1", "a"), pod(quiet, "n2", "b"),
					revisionOf(quiet, 1, "a", "registry.example/agent:1"), revisionOf(quiet, 2, "b", "registry.example/agent:2"))
			}
			for _, object := range objects {
				copies = append(copies, object.DeepCopyObject())
			}
			fakecluster.Golden(t, *update, name+".txt", fakecluster.New(t, copies...).Session(t, command.Root, lines...))
		})
	}
}
