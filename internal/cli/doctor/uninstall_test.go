// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// rolling is an Advanced DaemonSet of three nodes, with so many pods that are up to date.
func rolling(name string, updated int64, rollingUpdate map[string]any) (set *unstructured.Unstructured, pods []*corev1.Pod) {
	roll := fakecluster.Roll{Name: name, Advanced: true, Letters: "uoo", Spec: map[string]any{
		"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": rollingUpdate},
	}}
	set = roll.Object()
	set.SetAnnotations(map[string]string{"everynode.dev/in-place-gate": "true"})
	set.Object["status"] = map[string]any{"observedGeneration": set.GetGeneration(), "desiredNumberScheduled": int64(3), "updatedNumberScheduled": updated}
	for _, object := range roll.Pods() {
		pod := object.(*corev1.Pod)
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "InPlaceUpdateReady"}}
		gate(pod, corev1.ConditionTrue)
		pods = append(pods, pod)
	}
	return set, pods
}

// gate opens or closes the readiness gate of a pod.
func gate(pod *corev1.Pod, status corev1.ConditionStatus) {
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == "InPlaceUpdateReady" })
	if status != "" {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: "InPlaceUpdateReady", Status: status, LastTransitionTime: metav1.NewTime(fakecluster.Now()),
		})
	}
}

// inPlace is the strategy of a set that changes pods in place, and more.
func inPlace(more map[string]any) map[string]any {
	all := map[string]any{"rollingUpdateType": "InPlaceIfPossible"}
	for key, value := range more {
		all[key] = value
	}
	return all
}

func TestBeforeUninstall(t *testing.T) {
	refuse := func(verb, resource string) func(*fakecluster.Cluster) {
		return func(c *fakecluster.Cluster) {
			no := func(a clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", errors.New("no rule allows it"))
			}
			c.Kubernetes.PrependReactor(verb, resource, no)
			c.Dynamic.PrependReactor(verb, resource, no)
		}
	}
	const first, unseen = "do not stop the manager: first do what is listed above", "do not stop the manager: not every check could be made"
	for name, c := range map[string]struct {
		updated  int64
		strategy map[string]any
		change   func(pods []*corev1.Pod)
		stored   []any
		foreign  bool // the definitions are OpenKruise's
		adjust   func(*fakecluster.Cluster)
		want     string
	}{
		// The pods are OpenKruise's, and so is what is under way: Everynode may go, and must not pause it.
		"leave-foreign":     {updated: 1, strategy: inPlace(nil), foreign: true, change: func(p []*corev1.Pod) { gate(p[0], corev1.ConditionFalse) }},
		"leave-nothing":     {updated: 3, strategy: inPlace(nil)},
		"leave-closed":      {updated: 1, strategy: inPlace(map[string]any{"paused": true}), want: first, change: func(p []*corev1.Pod) { gate(p[0], corev1.ConditionFalse) }},
		"leave-never-open":  {updated: 3, strategy: inPlace(nil), want: first, change: func(p []*corev1.Pod) { gate(p[1], ""); gate(p[2], corev1.ConditionUnknown) }},
		"leave-ended-pods":  {updated: 3, strategy: inPlace(nil), change: func(p []*corev1.Pod) { gate(p[1], ""); p[1].Status.Phase = corev1.PodFailed }},
		"leave-rolling":     {updated: 1, strategy: inPlace(nil), want: first},
		"leave-paused":      {updated: 1, strategy: inPlace(map[string]any{"paused": true})},
		"leave-partition":   {updated: 1, strategy: inPlace(map[string]any{"partition": int64(2)})},
		"leave-percent":     {updated: 1, strategy: inPlace(map[string]any{"partition": "50%"}), want: first},
		"leave-replacing":   {updated: 1, strategy: map[string]any{"rollingUpdateType": "Standard"}},
		"leave-old-version": {updated: 3, strategy: inPlace(nil), stored: []any{"v1alpha1", "v1beta1"}, want: first},
		"leave-held-node": {updated: 3, strategy: inPlace(nil), want: first, adjust: func(c *fakecluster.Cluster) {
			c.Kubernetes.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				held := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{everynode.HoldTaint()}}}
				return true, &corev1.NodeList{Items: []corev1.Node{held}}, nil
			})
		}},
		"leave-other-taint": {updated: 3, strategy: inPlace(nil), adjust: func(c *fakecluster.Cluster) {
			c.Kubernetes.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				taint := corev1.Taint{Key: everynode.HoldKey, Effect: corev1.TaintEffectNoExecute} // of a user: no manager removes it
				return true, &corev1.NodeList{Items: []corev1.Node{{Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}}}}, nil
			})
		}},
		"leave-no-nodes": {updated: 3, strategy: inPlace(nil), adjust: refuse("list", "nodes"), want: unseen},
		"leave-no-sets":  {updated: 3, strategy: inPlace(nil), adjust: refuse("list", "daemonsets"), want: unseen},
		"leave-no-pods":  {updated: 3, strategy: inPlace(nil), adjust: refuse("list", "pods"), want: unseen},
	} {
		t.Run(name, func(t *testing.T) {
			set, pods := rolling("agent", c.updated, c.strategy)
			if c.change != nil {
				c.change(pods)
			}
			i := healthy(t)
			i.labelled = !c.foreign
			objects := append(i.objects(), set)
			for _, pod := range pods {
				objects = append(objects, pod)
			}
			for _, object := range objects {
				if crd, is := object.(*unstructured.Unstructured); is && crd.GetKind() == "CustomResourceDefinition" && c.stored != nil {
					crd.Object["status"].(map[string]any)["storedVersions"] = c.stored
				}
			}
			cluster := fakecluster.New(t, objects...)
			if c.adjust != nil {
				c.adjust(cluster)
			}
			err := cluster.Run(t, doctor.New, "--before-uninstall")
			if (err == nil) != (c.want == "") || err != nil && (options.Code(err) != options.ExitError || err.Error() != c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			fakecluster.Golden(t, *update, name+".txt", cluster.Out.String())
		})
	}
}

// TestBeforeUninstallOfASetThatLeavesGatesOpen: a pod that is changed in place with its gate open needs no manager to be ready again.
func TestBeforeUninstallOfASetThatLeavesGatesOpen(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		refused     bool
	}{
		"neither":              {nil, false},
		"no gate, no grace":    {map[string]string{"everynode.dev/in-place-gate": "false", "everynode.dev/in-place-grace-seconds": "0"}, false},
		"a grace period":       {map[string]string{"everynode.dev/in-place-grace-seconds": "5"}, true},
		"the gate":             {map[string]string{"everynode.dev/in-place-gate": "true"}, true},
		"an unreadable switch": {map[string]string{"everynode.dev/in-place-gate": "yes"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			set, pods := rolling("agent", 1, inPlace(nil))
			set.SetAnnotations(c.annotations)
			pods[0].Spec.ReadinessGates, pods[0].Status.Conditions = nil, nil
			pods[0].Annotations = map[string]string{
				"apps.kruise.io/inplace-update-state": `{"revision":"b","updateTimestamp":"2026-01-01T12:00:00Z","lastContainerStatuses":{"agent":{"containerID":"c"}},"gateOpen":true}`,
			}
			objects := append(healthy(t).objects(), set)
			for _, pod := range pods {
				objects = append(objects, pod)
			}
			cluster := fakecluster.New(t, objects...)
			if err := cluster.Run(t, doctor.New, "--before-uninstall"); (err != nil) != c.refused {
				t.Errorf("got %v, refused should be %t\n%s", err, c.refused, cluster.Out.String())
			}
		})
	}
}

// TestBeforeUninstallOfASetThatWasEditedAMomentAgo: the status is that of the template before, and what the manager does next is to change pods in place.
func TestBeforeUninstallOfASetThatWasEditedAMomentAgo(t *testing.T) {
	set, pods := rolling("agent", 3, inPlace(nil))
	set.SetGeneration(2)
	set.Object["status"].(map[string]any)["observedGeneration"] = int64(1)
	objects := append(healthy(t).objects(), set)
	for _, pod := range pods {
		objects = append(objects, pod)
	}
	cluster := fakecluster.New(t, objects...)
	if err := cluster.Run(t, doctor.New, "--before-uninstall"); err == nil {
		t.Errorf("generation 2 has not been looked at yet, and doctor says\n%s", cluster.Out.String())
	}
}
