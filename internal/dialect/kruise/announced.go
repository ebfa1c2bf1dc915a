// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// announcement is a change in place that OpenKruise has begun and not completed: the pod has the label of the new revision already, but has
// not been changed to it, or only in part.
type announcement struct {
	images    map[string]string
	resources map[string]corev1.ResourceRequirements
	// refs are labels and annotations that environment variables of containers read; metadata has all others.
	refs     map[string]kruise.InPlaceMetadata
	metadata metadataPatch
	// since is when the grace period began, due when the change may be made.
	since, due rollout.Time
	// unreadable reports whether it is unknown what the pod was to become.
	unreadable bool
}

// metadataPatch is what a patch of a pod's metadata changes; nil removes a key.
type metadataPatch struct {
	Labels      map[string]*string `json:"labels"`
	Annotations map[string]*string `json:"annotations"`
}

// announcementOf returns the announced change of a pod that can be continued, now or later; nil if there is none. The state and its time come from stateOf.
func announcementOf(p *corev1.Pod, state *kruise.InPlaceState, since time.Time) *announcement {
	if text, ok := annotation(p, kruise.InPlaceUpdateGrace, kruise.InPlaceUpdateGraceOld); ok {
		if a := announcedByGrace(p, text, since); a != nil {
			return a
		}
	}
	if state == nil || !hasNext(state) || arrivalOf(p, state) == arrivalAwaited || !allReady(p, state.PreCheckBeforeNext) {
		return nil // if there is a next batch, the one before it comes first
	}
	return &announcement{images: state.NextContainerImages, resources: state.NextContainerResources, refs: state.NextContainerRefMetadata}
}

// announcedByGrace reads a change that waits for its grace period. When the pod's revision has changed since, it means nothing any
// more (as with OpenKruise).
func announcedByGrace(p *corev1.Pod, text string, since time.Time) *announcement {
	var grace kruise.InPlaceGrace
	if json.Unmarshal([]byte(text), &grace) != nil {
		return &announcement{unreadable: true}
	}
	if hash := p.Labels[hashLabel]; grace.Revision != hash && !strings.HasSuffix(grace.Revision, "-"+hash) {
		return nil
	}
	a := &announcement{images: grace.ContainerImages, resources: grace.ContainerResources, refs: grace.ContainerRefMetadata}
	if !since.IsZero() {
		a.since = rollout.Time(since.UnixNano())
		a.due = a.since.Add(time.Duration(grace.GraceSeconds) * time.Second)
	}
	var patch struct {
		Metadata metadataPatch `json:"metadata"`
	}
	a.unreadable = len(grace.MetaDataPatch) > 0 && json.Unmarshal(grace.MetaDataPatch, &patch) != nil
	a.metadata = patch.Metadata
	return a
}

// hasNext reports whether OpenKruise has left containers for later.
func hasNext(s *kruise.InPlaceState) bool {
	return len(s.NextContainerImages)+len(s.NextContainerRefMetadata)+len(s.NextContainerResources) > 0
}

// halfway reports whether OpenKruise has deferred a part of a change in place, whether or not it can be continued.
func halfway(p *corev1.Pod) bool {
	_, waits := annotation(p, kruise.InPlaceUpdateGrace, kruise.InPlaceUpdateGraceOld)
	state, _ := stateOf(p)
	return waits || state != nil && hasNext(state)
}

func allReady(p *corev1.Pod, check *kruise.InPlaceCheck) bool {
	if check == nil {
		return true
	}
	return !slices.ContainsFunc(check.ContainersRequiredReady, func(name string) bool {
		return !slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name && s.Ready })
	})
}

// unfinished reports whether the change cannot be continued: it cannot be read, or an environment variable must change in a container
// that would not be recreated, which needs OpenKruise's own agent on the node.
func (a *announcement) unfinished(p *corev1.Pod) bool {
	if a.unreadable {
		return true
	}
	for name := range a.refs {
		i := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
		if i >= 0 && (a.images[name] == "" || a.images[name] == p.Spec.Containers[i].Image) {
			return true
		}
	}
	return false
}

// metadataChanges are all labels and annotations that change.
func (a *announcement) metadataChanges() (labels, annotations map[string]*string) {
	labels, annotations = map[string]*string{}, map[string]*string{}
	maps.Copy(labels, a.metadata.Labels)
	maps.Copy(annotations, a.metadata.Annotations)
	for _, ref := range a.refs {
		for key, value := range ref.Labels {
			labels[key] = &value
		}
		for key, value := range ref.Annotations {
			annotations[key] = &value
		}
	}
	return labels, annotations
}

// Resume implements dialect.Edits: it makes the change that was announced. Then the pod is in the same state as one that Everynode has patched.
func (Edits) Resume(p *corev1.Pod, now time.Time) []dialect.Edit {
	state, since := stateOf(p)
	a := announcementOf(p, state, since)
	if a == nil || a.unfinished(p) {
		return nil
	}
	labels, annotations := a.metadataChanges()
	return changeEdits(p, now, target{
		closeGate: true, hash: p.Labels[hashLabel], images: a.images, resources: a.resources, labels: labels, annotations: annotations,
	})
}
