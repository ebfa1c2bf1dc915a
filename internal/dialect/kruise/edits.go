// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// hookKey and hookAgent are in the message of KruisePodReady, as OpenKruise writes them.
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
	if w.Set.InPlace && w.Set.ClosesGate() {
		gates = append(gates, string(kruise.InPlaceUpdateReady))
	}
	if w.PreDelete != nil && w.PreDelete.MarkNotReady {
		gates = append(gates, string(kruise.KruisePodReady))
	}
	return gates
}

func hookMessage() kruise.NotReadyMessage {
	return kruise.NotReadyMessage{UserAgent: hookAgent, Key: hookKey}
}

// Prepare implements dialect.Edits. The pod is made not ready first: after a crash in between it is prepared once more, or, if it
// is not to be deleted any more, found to be stranded.
func (Edits) Prepare(w *dialect.Workload, p *corev1.Pod, evict bool, now time.Time) []dialect.Edit {
	var edits []dialect.Edit
	// A message that cannot be read is from another controller, which keeps the pod not ready; it stays.
	held, readable := messages(p)
	if w.PreDelete != nil && w.PreDelete.MarkNotReady && hasGate(p, kruise.KruisePodReady) && readable {
		if !slices.Contains(held, hookMessage()) {
			held = append(held, hookMessage())
		}
		edits = podReadyEdits(p, held, now)
	}
	var reason any // nil removes an earlier one
	if evict {
		reason = everynode.PreparedForEviction
	}
	return append(edits, lifecycleEdit(p, kruise.LifecyclePreparingDelete, reason, now))
}

// Restore implements dialect.Edits. The gate is opened first: after a crash in between the pod is restored once more.
func (Edits) Restore(_ *dialect.Workload, p *corev1.Pod, now time.Time) []dialect.Edit {
	var edits []dialect.Edit
	if _, readable := messages(p); readable && hasGate(p, kruise.KruisePodReady) {
		edits = podReadyEdits(p, heldByOthers(p), now)
	}
	return append(edits, lifecycleEdit(p, kruise.LifecycleNormal, nil, now))
}

// heldByOthers returns the entries, other than the hook, that keep the pod not ready.
func heldByOthers(p *corev1.Pod) []kruise.NotReadyMessage {
	list, _ := messages(p)
	return slices.DeleteFunc(list, func(m kruise.NotReadyMessage) bool { return m == hookMessage() })
}

// podReadyEdits returns the edits that write the entries that keep KruisePodReady False. There are none if
// the pod has these entries already: when answers are slow, a pass sends only the first edit of a pod, and
// the next pass the rest.
func podReadyEdits(p *corev1.Pod, held []kruise.NotReadyMessage, now time.Time) []dialect.Edit {
	wanted, c := podReady(held), condition(p, kruise.KruisePodReady)
	if has, readable := messages(p); c != nil && c.Status == wanted.Status && readable && slices.Equal(has, held) {
		return nil
	}
	return []dialect.Edit{conditionEdit(p, now, wanted)}
}

// podReady is the condition KruisePodReady with what keeps it False.
func podReady(held []kruise.NotReadyMessage) corev1.PodCondition {
	if len(held) == 0 {
		return corev1.PodCondition{Type: kruise.KruisePodReady, Status: corev1.ConditionTrue}
	}
	// Pairs of strings can always be encoded.
	message, _ := json.Marshal(held)
	return corev1.PodCondition{Type: kruise.KruisePodReady, Status: corev1.ConditionFalse, Message: string(message)}
}

// Mark implements dialect.Edits. A marked pod is not marked again, because it may have been patched since.
// The time of a mark is always later than the state of the previous change, whatever time another leader's
// clock has written there.
func (Edits) Mark(p *corev1.Pod, now time.Time) []dialect.Edit {
	if c := condition(p, kruise.InPlaceUpdateReady); c != nil && c.Status != corev1.ConditionTrue {
		return nil
	}
	edits, _ := markEdits(p, now)
	return edits
}

// maxSkew is the tolerated difference between the clocks of two leaders: a grace period may become longer by this time.
const maxSkew = time.Minute

// markEdits returns the edits that close the gate, and the time of the mark: now, or the first whole second
// after the state of the last change, whose time has a resolution of seconds. If a fast clock has left a
// state with a time in the future, the state gets a new time first; otherwise the grace period would begin
// only at that time.
func markEdits(p *corev1.Pod, now time.Time) ([]dialect.Edit, time.Time) {
	var edits []dialect.Edit
	if state, since := stateOf(p); state != nil && now.Truncate(time.Second).Compare(since) <= 0 {
		if since.Sub(now) > maxSkew {
			state.UpdateTimestamp = now.Add(-time.Second).UTC().Format(time.RFC3339)
			edits = append(edits, edit(map[string]any{"metadata": map[string]any{
				"uid": p.UID, "annotations": map[string]string{kruise.InPlaceUpdateState: encodeState(p, state)},
			}}, dialect.Whole))
		} else {
			now = since.Add(time.Second)
		}
	}
	return append(edits, conditionEdit(p, now, corev1.PodCondition{
		Type: kruise.InPlaceUpdateReady, Status: corev1.ConditionFalse, Reason: kruise.ReasonStartInPlaceUpdate,
	})), now
}

// Unmark implements dialect.Edits. It opens each of our gates that no entry keeps closed.
func (Edits) Unmark(p *corev1.Pod, now time.Time) []dialect.Edit {
	var conditions []corev1.PodCondition
	if c := condition(p, kruise.InPlaceUpdateReady); hasGate(p, kruise.InPlaceUpdateReady) && (c == nil || c.Status != corev1.ConditionTrue) {
		conditions = append(conditions, corev1.PodCondition{Type: kruise.InPlaceUpdateReady, Status: corev1.ConditionTrue})
	}
	if unopened(p, kruise.KruisePodReady) || stranded(p) {
		conditions = append(conditions, podReady(heldByOthers(p)))
	}
	if len(conditions) == 0 {
		return nil
	}
	return []dialect.Edit{conditionEdit(p, now, conditions...)}
}

// Patch implements dialect.Edits: images, resources, labels and annotations that differ between the templates, the hash of the
// revision, and the state that shows when the node runs all this. A pod that already has the hash has been patched; a lost answer is no reason to discard its
// state.
func (Edits) Patch(p *corev1.Pod, c dialect.Change, now time.Time) []dialect.Edit {
	if p.Labels[hashLabel] == c.Hash {
		return nil
	}
	return changeEdits(p, now, target{
		closeGate: c.CloseGate, hash: c.Hash, images: imagesFor(p, c), resources: changedResources(c.From, c.To),
		labels:      changed(texts(c.From, "labels"), texts(c.To, "labels")),
		annotations: changed(texts(c.From, "annotations"), texts(c.To, "annotations")), restarts: toRestart(c.From, c.To),
	})
}

// imagesFor returns the images that change with c. Other images of the pod are not changed: a webhook may
// have written another name of the same image when the pod was created, and the container would be recreated
// without need. If OpenKruise has changed a pod only in part, it is unknown which images it has, so it gets
// all of them.
func imagesFor(p *corev1.Pod, c dialect.Change) map[string]string {
	wanted := images(c.To)
	if halfway(p) {
		return wanted
	}
	for name, image := range images(c.From) {
		if wanted[name] == image {
			delete(wanted, name)
		}
	}
	return wanted
}

// target is the result of a change in place: images and resources by container, and labels and annotations, where nil removes one.
type target struct {
	closeGate           bool
	hash                string
	images              map[string]string
	resources           map[string]corev1.ResourceRequirements
	labels, annotations map[string]*string
	// restarts are containers that restart without another image.
	restarts []string
}

// changeEdits returns the edits that change a pod. If its gate must be closed, a pod whose gate is open, or
// was never opened, is marked first. Resources come before the label of the new revision: after a crash in
// between the pod is still an old one, and is changed once more.
func changeEdits(p *corev1.Pod, now time.Time, to target) []dialect.Edit {
	var edits []dialect.Edit
	closed := closedGate(p)
	switch {
	case closed != nil && now.Before(closed.LastTransitionTime.Time):
		now = closed.LastTransitionTime.Time // another leader's clock: the patch must not seem older than the mark
	case closed == nil && to.closeGate:
		edits, now = markEdits(p, now)
	}
	if resize, differs := resizeEdit(p, to.resources); differs {
		edits = append(edits, resize)
	}
	spec, waits := imageChanges(p, to.images)
	text := encodeState(p, &kruise.InPlaceState{
		Revision: to.hash, UpdateTimestamp: now.UTC().Format(time.RFC3339), LastContainerStatuses: waits, UpdateImages: len(spec) > 0,
		UpdateResources: len(to.resources) > 0 || resizePending(p), GateOpen: closed == nil && !to.closeGate, Restarts: restartsFor(p, to.restarts, waits),
	})
	to.labels[hashLabel], to.annotations[kruise.InPlaceUpdateState] = &to.hash, &text
	for _, stale := range []string{kruise.InPlaceUpdateStateOld, kruise.InPlaceUpdateGrace, kruise.InPlaceUpdateGraceOld} {
		if _, there := p.Annotations[stale]; there {
			to.annotations[stale] = nil
		}
	}
	patch := map[string]any{"metadata": map[string]any{"uid": p.UID, "labels": to.labels, "annotations": to.annotations}}
	if len(spec) > 0 {
		patch["spec"] = spec
	}
	return append(edits, edit(patch, dialect.Whole))
}

// imageChanges returns the container lists of a patch that gives p the wanted images, and the containers that
// must be recreated before the change has arrived. They include containers of a superseded change that the
// node has not processed yet. An init container that has ended is not recreated.
func imageChanges(p *corev1.Pod, wanted map[string]string) (patch map[string]any, waits map[string]kruise.InPlaceContainer) {
	patch = map[string]any{}
	if list := differing(p.Spec.InitContainers, wanted); len(list) > 0 {
		patch["initContainers"] = list
	}
	if list := differing(p.Spec.Containers, wanted); len(list) > 0 {
		patch["containers"] = list
	}
	pending := map[string]kruise.InPlaceContainer{}
	state, since := stateOf(p)
	if phase, _ := changeOf(p, state, since); phase == rollout.InPlacePatched {
		maps.Copy(pending, state.LastContainerStatuses)
	}
	waits, restarting := maps.Clone(pending), pendingRestarts(p)
	for c := range LongRunning(&p.Spec) {
		name := c.Name
		want, ok := wanted[name]
		if !ok || want == c.Image {
			continue
		}
		now, image := before(p, name)
		if now.ContainerID != "" && now.ContainerID == pending[name].ContainerID && sameImage(image, want) {
			// Changed back before the node has reported it: the container stays, unless the node has started the change and is about to report that.
			waits[name] = kruise.InPlaceContainer{Superseded: true}
			continue
		}
		if last, underWay := pending[name]; underWay {
			now.Superseded = last.Superseded || last.ContainerID == "" || now.ContainerID == "" || last.ContainerID == now.ContainerID
		}
		if _, underWay := restarting[name]; underWay {
			now.Superseded = true // the agent may stop it before the kubelet does, and the kubelet may then start the earlier image once more
		}
		waits[name] = now
	}
	return patch, waits
}

// differing are the containers of a list that get another image.
func differing(containers []corev1.Container, wanted map[string]string) (list []any) {
	for i := range containers {
		if want, ok := wanted[containers[i].Name]; ok && want != containers[i].Image {
			list = append(list, map[string]any{"name": containers[i].Name, "image": want})
		}
	}
	return list
}

// sameImage compares the name of an image as a node reports it with one from a template.
func sameImage(reported, wanted string) bool {
	short := func(image string) string {
		return strings.TrimPrefix(strings.TrimPrefix(image, "docker.io/"), "library/")
	}
	return short(reported) == short(wanted)
}

// before is a container as it is now, and the image that it runs.
func before(p *corev1.Pod, name string) (kruise.InPlaceContainer, string) {
	if s := statusOf(p, name); s != nil {
		return kruise.InPlaceContainer{ImageID: s.ImageID, ContainerID: s.ContainerID}, s.Image
	}
	return kruise.InPlaceContainer{}, ""
}

func lifecycleEdit(p *corev1.Pod, state string, reason any, now time.Time) dialect.Edit {
	return edit(map[string]any{"metadata": map[string]any{
		"uid":         p.UID,
		"labels":      map[string]string{kruise.LifecycleState: state},
		"annotations": map[string]any{kruise.LifecycleTimestamp: now.UTC().Format(time.RFC3339), everynode.PreparedFor: reason},
	}}, dialect.Whole)
}

// conditionEdit writes conditions. The message of KruisePodReady is a list that others write, too; so that none of their entries is lost,
// the patch is refused when the pod has been changed since it was read.
func conditionEdit(p *corev1.Pod, now time.Time, conditions ...corev1.PodCondition) dialect.Edit {
	metadata := map[string]any{"uid": p.UID}
	list := make([]any, 0, len(conditions))
	for _, c := range conditions {
		if c.Type == kruise.KruisePodReady {
			metadata["resourceVersion"] = p.ResourceVersion
		}
		entry := map[string]any{"type": c.Type, "status": c.Status, "lastTransitionTime": now.UTC().Format(time.RFC3339)}
		maps.Copy(entry, map[string]any{"reason": c.Reason, "message": c.Message})
		list = append(list, entry)
	}
	return edit(map[string]any{"metadata": metadata, "status": map[string]any{"conditions": list}}, dialect.Status)
}

func edit(patch map[string]any, of dialect.Subresource) dialect.Edit {
	// Maps of strings, numbers and booleans can always be encoded.
	data, _ := json.Marshal(patch)
	return dialect.Edit{Patch: data, Of: of}
}
