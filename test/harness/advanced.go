// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/test/observe"
)

// Advanced returns the Advanced DaemonSet of that name, or nil.
func (v View) Advanced(name string) *v1beta1.DaemonSet {
	if v.advanced == nil {
		return nil
	}
	object, _, err := v.advanced.GetByKey(v.namespace + "/" + name)
	if err != nil {
		return nil
	}
	set, _ := object.(*v1beta1.DaemonSet)
	return set
}

// advancedSets returns all Advanced DaemonSets of the namespace.
func (v View) advancedSets() []*v1beta1.DaemonSet {
	if v.advanced == nil {
		return nil
	}
	var sets []*v1beta1.DaemonSet
	for _, object := range v.advanced.List() {
		if set, ok := object.(*v1beta1.DaemonSet); ok {
			sets = append(sets, set)
		}
	}
	return sets
}

// asNative returns the part of the set that a DaemonSet of apps/v1 has too, or nil if it cannot be decoded.
func asNative(set *v1beta1.DaemonSet) *appsv1.DaemonSet {
	if set == nil {
		return nil
	}
	native, err := observe.AsNative(set)
	if err != nil {
		return nil
	}
	return native
}

// ConditionOf returns a condition of an Advanced DaemonSet, or nil.
func (v View) ConditionOf(set string, kind appsv1.DaemonSetConditionType) *appsv1.DaemonSetCondition {
	owner := v.Advanced(set)
	if owner == nil {
		return nil
	}
	for i := range owner.Status.Conditions {
		if owner.Status.Conditions[i].Type == kind {
			return &owner.Status.Conditions[i]
		}
	}
	return nil
}

// ConditionIs is met when the set has the condition with that status and reason, for its newest generation.
func ConditionIs(set string, kind appsv1.DaemonSetConditionType, status corev1.ConditionStatus, reason string) Condition {
	return func(v View) error {
		owner := v.Advanced(set)
		if owner == nil || owner.Status.ObservedGeneration < owner.Generation {
			return fmt.Errorf("the newest generation of set %s is not observed yet", set)
		}
		if c := v.ConditionOf(set, kind); c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("condition %s of set %s is not %s with reason %s, but %+v", kind, set, status, reason, c)
		}
		return nil
	}
}

// WatchAdvanced has the spaces that follow watch Advanced DaemonSets, on a plane where these are installed later.
func (c *Cluster) WatchAdvanced() { c.advanced = true }

// watchAdvanced starts to watch Advanced DaemonSets, if the plane serves them.
func (s *Space) watchAdvanced(handler cache.ResourceEventHandler) (cache.Store, error) {
	if !s.Cluster.advanced {
		return nil, nil
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(s.Cluster.Dynamic, 0, s.Name, nil)
	sets := factory.ForResource(v1beta1.GroupVersion().WithResource(kruise.Resource))
	err := sets.Informer().SetTransform(func(object any) (any, error) {
		if undecoded, ok := object.(runtime.Object); ok {
			return observe.ReadAdvanced(undecoded)
		}
		return object, nil
	})
	if err != nil {
		return nil, err
	}
	if _, err := sets.Informer().AddEventHandler(handler); err != nil {
		return nil, err
	}
	factory.Start(s.ctx.Done())
	if !cache.WaitForCacheSync(s.ctx.Done(), sets.Informer().HasSynced) {
		return nil, s.ctx.Err()
	}
	return sets.Informer().GetStore(), nil
}

// ObserveAdvanced starts to record an Advanced DaemonSet of the space.
func (s *Space) ObserveAdvanced(name string) *observe.Recorder {
	s.t.Helper()
	recorder, err := observe.RecordAdvanced(s.ctx, observe.Clients{Typed: s.Cluster.Client, Dynamic: s.Cluster.Dynamic}, s.Name, name)
	if err != nil {
		s.t.Fatalf("observing set %s: %v", name, err)
	}
	return recorder
}

// KubectlWith runs kubectl with a standard input, and returns its output, even if it fails.
func (s *Space) KubectlWith(input string, args ...string) (string, error) {
	s.t.Helper()
	args = append([]string{"kubectl", "--dir", s.Cluster.dir, "--namespace", s.Name}, args...)
	command := exec.CommandContext(s.ctx, filepath.Join(BinDir(), "localplane"), args...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(out), err
}

// DeletePod deletes a pod as a user would; if there is a recorder, it is notified before. A pod that is gone is no error: a view may be older than the cluster.
func (s *Space) DeletePod(recorder *observe.Recorder, pod *corev1.Pod) {
	s.t.Helper()
	if recorder != nil {
		recorder.Excuse(pod.UID)
	}
	if err := s.Cluster.Client.CoreV1().Pods(s.Name).Delete(s.ctx, pod.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatalf("deleting pod %s: %v", pod.Name, err)
	}
}

// Context ends with the test.
func (s *Space) Context() context.Context { return s.ctx }

func describeAdvanced(text *strings.Builder, set *v1beta1.DaemonSet) {
	s := set.Status
	fmt.Fprintf(text, "Advanced set %s generation %d (observed %d, revision %s): desired %d current %d misscheduled %d updated %d ready %d available %d unavailable %d\n",
		set.Name, set.Generation, s.ObservedGeneration, s.UpdateRevision, s.DesiredNumberScheduled, s.CurrentNumberScheduled,
		s.NumberMisscheduled, s.UpdatedNumberScheduled, s.NumberReady, s.NumberAvailable, s.NumberUnavailable)
	for _, c := range s.Conditions {
		fmt.Fprintf(text, "  condition %s %s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
}
