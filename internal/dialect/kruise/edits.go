// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"encoding/json"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
)

// hookKey and hookAgent stand in the message of KruisePodReady, as OpenKruise writes them.
const (
	hookAgent = "Lifecycle"
	hookKey   = "preDeleteHook"
)

// Edits are the writes to pods that only this dialect makes. Each is a strategic merge patch that is refused for a successor of
// the same name.
type Edits struct{}

var _ dialect.Edits = Edits{}

// Gates implements dialect.Edits.
func (Edits) Gates(w *dialect.Workload) []string {
	var gates []string
	if w.Set.InPlace {
		gates = append(gates, string(kruise.InPlaceUpdateReady))
	}
	if w.PreDelete != nil && w.PreDelete.MarkNotReady {
		gates = append(gates, string(kruise.KruisePodReady))
	}
	return gates
}

// Prepare implements dialect.Edits. The pod is made not ready first: after a crash in between it is prepared once more.
func (Edits) Prepare(w *dialect.Workload, p *corev1.Pod, now time.Time) []dialect.Edit {
	var edits []dialect.Edit
	if w.PreDelete != nil && w.PreDelete.MarkNotReady && hasGate(p, kruise.KruisePodReady) {
		// Two strings can always be encoded.
		message, _ := json.Marshal([]kruise.NotReadyMessage{{UserAgent: hookAgent, Key: hookKey}})
		edits = append(edits, conditionEdit(p, now, corev1.PodCondition{
			Type: kruise.KruisePodReady, Status: corev1.ConditionFalse, Message: string(message),
		}))
	}
	return append(edits, lifecycleEdit(p, kruise.LifecyclePreparingDelete, now))
}

// Restore implements dialect.Edits.
func (Edits) Restore(_ *dialect.Workload, p *corev1.Pod, now time.Time) []dialect.Edit {
	edits := []dialect.Edit{lifecycleEdit(p, kruise.LifecycleNormal, now)}
	if hasGate(p, kruise.KruisePodReady) {
		edits = append(edits, conditionEdit(p, now, corev1.PodCondition{Type: kruise.KruisePodReady, Status: corev1.ConditionTrue}))
	}
	return edits
}

// Mark implements dialect.Edits.
func (Edits) Mark(p *corev1.Pod, now time.Time) []dialect.Edit {
	return []dialect.Edit{conditionEdit(p, now, corev1.PodCondition{
		Type: kruise.InPlaceUpdateReady, Status: corev1.ConditionFalse, Reason: kruise.ReasonStartInPlaceUpdate,
	})}
}

// Unmark implements dialect.Edits. It opens every gate of ours that nothing holds closed.
func (Edits) Unmark(p *corev1.Pod, now time.Time) []dialect.Edit {
	var conditions []corev1.PodCondition
	for _, gate := range []corev1.PodConditionType{kruise.InPlaceUpdateReady, kruise.KruisePodReady} {
		if !hasGate(p, gate) || gate == kruise.KruisePodReady && condition(p, gate) != nil {
			continue // an existing False of KruisePodReady is for the hook to take back
		}
		conditions = append(conditions, corev1.PodCondition{Type: gate, Status: corev1.ConditionTrue})
	}
	return []dialect.Edit{conditionEdit(p, now, conditions...)}
}

// Patch implements dialect.Edits: images, labels and annotations that differ between the templates, the hash of the revision, and
// the state that tells when the node runs all this.
func (Edits) Patch(p *corev1.Pod, c dialect.Change, now time.Time) []dialect.Edit {
	if marked := condition(p, kruise.InPlaceUpdateReady); marked != nil && now.Before(marked.LastTransitionTime.Time) {
		now = marked.LastTransitionTime.Time // another leader's clock: the patch must not seem older than the mark
	}
	state := kruise.InPlaceState{Revision: c.Hash, UpdateTimestamp: now.UTC().Format(time.RFC3339), LastContainerStatuses: map[string]kruise.InPlaceContainer{}}
	var containers []any
	for i := range p.Spec.Containers {
		have := &p.Spec.Containers[i]
		if want, ok := images(c.To)[have.Name]; ok && want != have.Image {
			containers = append(containers, map[string]any{"name": have.Name, "image": want})
			state.LastContainerStatuses[have.Name] = before(p, have.Name)
			state.UpdateImages = true
		}
	}
	labels, annotations := changed(texts(c.From, "labels"), texts(c.To, "labels")), changed(texts(c.From, "annotations"), texts(c.To, "annotations"))
	labels[hashLabel] = &c.Hash
	// Strings can always be encoded.
	text, _ := json.Marshal(state)
	encoded := string(text)
	annotations[kruise.InPlaceUpdateState] = &encoded
	patch := map[string]any{"metadata": map[string]any{"uid": p.UID, "labels": labels, "annotations": annotations}}
	if len(containers) > 0 {
		patch["spec"] = map[string]any{"containers": containers}
	}
	return []dialect.Edit{edit(patch, false)}
}

// before is a container as it is now.
func before(p *corev1.Pod, name string) kruise.InPlaceContainer {
	for i := range p.Status.ContainerStatuses {
		if s := &p.Status.ContainerStatuses[i]; s.Name == name {
			return kruise.InPlaceContainer{ImageID: s.ImageID, ContainerID: s.ContainerID}
		}
	}
	return kruise.InPlaceContainer{}
}

func lifecycleEdit(p *corev1.Pod, state string, now time.Time) dialect.Edit {
	return edit(map[string]any{"metadata": map[string]any{
		"uid":         p.UID,
		"labels":      map[string]string{kruise.LifecycleState: state},
		"annotations": map[string]string{kruise.LifecycleTimestamp: now.UTC().Format(time.RFC3339)},
	}}, false)
}

func conditionEdit(p *corev1.Pod, now time.Time, conditions ...corev1.PodCondition) dialect.Edit {
	list := make([]any, 0, len(conditions))
	for _, c := range conditions {
		entry := map[string]any{"type": c.Type, "status": c.Status, "lastTransitionTime": now.UTC().Format(time.RFC3339)}
		maps.Copy(entry, map[string]any{"reason": c.Reason, "message": c.Message})
		list = append(list, entry)
	}
	return edit(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": map[string]any{"conditions": list}}, true)
}

func edit(patch map[string]any, status bool) dialect.Edit {
	// Maps of strings, numbers and booleans can always be encoded.
	data, _ := json.Marshal(patch)
	return dialect.Edit{Patch: data, Status: status}
}
