// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// wanted is what the template of a set has its pods run, since when the controller has known that.
type wanted struct {
	of         types.UID
	images     map[string]string
	generation int64
	known      time.Time
}

// followTemplate follows what the template wants. The controller knows it once its status has observed that generation.
func (w *world) followTemplate(at time.Time) {
	if w.set == nil {
		w.wanted = wanted{}
		return
	}
	images := map[string]string{}
	for _, c := range w.set.Spec.Template.Spec.Containers {
		images[c.Name] = c.Image
	}
	if w.wanted.of != w.set.UID || fmt.Sprint(w.wanted.images) != fmt.Sprint(images) {
		w.wanted = wanted{of: w.set.UID, images: images, generation: w.set.Generation}
	}
	if w.wanted.known.IsZero() && w.set.Status.ObservedGeneration >= w.wanted.generation {
		w.wanted.known = at
	}
}

// runs reports whether a pod has what the template wants; a webhook may have given it more.
func (w *world) runs(pod *corev1.Pod) bool {
	has := map[string]string{}
	for _, c := range pod.Spec.Containers {
		has[c.Name] = c.Image
	}
	for name, image := range w.wanted.images {
		if has[name] != image {
			return false
		}
	}
	return true
}

// judgeUnchanged is Kept whatever becomes of revisions: a pod that runs what the template wants is not deleted, also where
// its revision was deleted and written again. A pod without a hash, which a webhook has taken, is none that the controller knows.
func (w *world) judgeUnchanged(event Event, old *corev1.Pod) {
	pod, isPod := event.Object.(*corev1.Pod)
	if !isPod || old == nil || w.set == nil || w.set.DeletionTimestamp != nil || !w.ours(pod) || !w.begins(old, pod, event.Type == watch.Deleted) {
		return
	}
	node := NodeOf(pod)
	begun := w.limits != nil && w.limits.begunPods[pod.UID]
	known := !w.wanted.known.IsZero() && len(w.wanted.images) > 0 && w.knows(w.wanted.known, w.decided(event, old, pod))
	if known && !begun && hashOf(old) != "" && w.eligible[node] && !w.taken(old, node) && w.runs(old) {
		w.violate(Kept, event, fmt.Sprintf("pod %s on node %s was deleted or changed, and the template of its set has wanted what it runs since %s",
			old.Name, node, w.wanted.known.Format("15:04:05.000")))
	}
}
