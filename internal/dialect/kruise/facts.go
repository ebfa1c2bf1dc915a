// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// hashLabel names the revision of a pod.
const hashLabel = appsv1.ControllerRevisionHashLabelKey

// Facts reads what the dialect needs to know of a pod; it is a dialect.FactsFunc. Pods of other dialects, and of other workloads of OpenKruise, have none.
func Facts(p *corev1.Pod) *dialect.PodFacts {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || owner.Kind != kruise.Kind || !strings.HasPrefix(owner.APIVersion, kruise.Group+"/") {
		return nil
	}
	f := &dialect.PodFacts{
		Gate:       hasGate(p, kruise.InPlaceUpdateReady),
		Preparing:  p.Labels[kruise.LifecycleState] == kruise.LifecyclePreparingDelete,
		Evicted:    p.Annotations[everynode.PreparedFor] == everynode.PreparedForEviction,
		Finalizers: slices.Clone(p.Finalizers),
		Trouble:    Trouble(p),
		Starting:   starting(p),
	}
	if len(p.Spec.ImagePullSecrets) > 0 {
		f.PullSecrets = unique.Make(secretNames(p))
	}
	state, since := stateOf(p) // read once: every version of every pod comes here
	f.InPlace, f.MarkedAt = phaseOf(p, state, since)
	f.Interrupted = f.InPlace == rollout.InPlaceArrived && stranded(p)
	f.Open = f.InPlace == rollout.InPlacePatched && closedGate(p) == nil && !unopened(p, kruise.InPlaceUpdateReady)
	f.ReadyAfter = readyAfter(p, state, since)
	switch f.InPlace {
	case rollout.InPlaceAnnounced:
		a := announcementOf(p, state, since)
		f.MarkedAt, f.Due = a.since, a.due
		if a.unfinished(p) {
			f.Stuck = rollout.DetailUnfinished
		}
	case rollout.InPlacePatched:
		f.Trouble = cmp.Or(f.Trouble, resizeTrouble(p, state))
		if infeasible(p, state) {
			f.Stuck = rollout.DetailInfeasible
		} else if waitsForever(p, state) || neverStarts(p, state, since) {
			f.Stuck = rollout.DetailRestart
		} else if state != nil {
			f.Patience = restartPatience(p, state)
		}
		f.Recreates = recreates(p, state)
		if f.Patience > 0 {
			f.Stuck, f.PatchedAt = rollout.DetailNotRestarted, rollout.Time(since.UnixNano())
		}
		if state != nil && !hasNext(state) && arrivalOf(p, state) == arrivalOpen {
			f.ArrivesBy = rollout.Time(since.Add(arrivesWithin).UnixNano())
		}
	}
	return f
}

// starting reports whether a container that reads labels or annotations in its environment does not run: the kubelet may be about to start it with those that it knew
// when it began to pull the image, and no agent can stop it yet. If an agent was asked to restart it, that agent compares the environment afterwards.
func starting(p *corev1.Pod) bool {
	for c := range LongRunning(&p.Spec) {
		s := statusOf(p, c.Name)
		if s != nil && s.State.Running != nil || !slices.ContainsFunc(fieldRefs(c), isMetadata) {
			continue
		}
		if _, asked := pendingRestarts(p)[c.Name]; !asked {
			return true
		}
	}
	return false
}

// secretNames are the names of the pull secrets of a pod, with commas.
func secretNames(p *corev1.Pod) string {
	names := make([]string, len(p.Spec.ImagePullSecrets))
	for i := range names {
		names[i] = p.Spec.ImagePullSecrets[i].Name
	}
	return strings.Join(names, ",")
}

func hasGate(p *corev1.Pod, gate corev1.PodConditionType) bool {
	return slices.ContainsFunc(p.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == gate })
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// phaseOf returns how far a change in place has come, and when it began. A closed gate that only Everynode
// can open, and that no entry keeps closed, is opened as if the change had arrived. The state and its time
// come from stateOf.
func phaseOf(p *corev1.Pod, state *kruise.InPlaceState, since time.Time) (rollout.InPlace, rollout.Time) {
	phase, marked := changeOf(p, state, since)
	if phase == rollout.InPlaceNone && (unopened(p, kruise.KruisePodReady) || unopened(p, kruise.InPlaceUpdateReady) || stranded(p)) {
		return rollout.InPlaceArrived, 0
	}
	return phase, marked
}

// changeOf is phaseOf for the change alone. The times distinguish a pod that was marked from one that was patched: the patch
// carries a time that is not before that of the mark (see Patch), while the state of an earlier change is older than it (see
// Mark).
func changeOf(p *corev1.Pod, state *kruise.InPlaceState, since time.Time) (rollout.InPlace, rollout.Time) {
	if hasGate(p, kruise.InPlaceUpdateReady) && announcementOf(p, state, since) != nil {
		return rollout.InPlaceAnnounced, 0
	}
	c := closedGate(p)
	if c == nil {
		if state != nil && state.GateOpen && arrivalOf(p, state) != arrivalSeen {
			return rollout.InPlacePatched, 0
		}
		return rollout.InPlaceNone, 0
	}
	marked := rollout.Time(c.LastTransitionTime.UnixNano())
	switch {
	case state == nil || since.Before(c.LastTransitionTime.Time):
		return rollout.InPlaceMarked, marked
	case arrivalOf(p, state) == arrivalSeen && !hasNext(state):
		return rollout.InPlaceArrived, marked
	default:
		return rollout.InPlacePatched, marked
	}
}

// closedGate is the condition that keeps a pod from being ready because of a change in place; nil if nothing does.
func closedGate(p *corev1.Pod) *corev1.PodCondition {
	c := condition(p, kruise.InPlaceUpdateReady)
	if c == nil || c.Status == corev1.ConditionTrue || !hasGate(p, kruise.InPlaceUpdateReady) {
		return nil
	}
	return c
}

// readyAfter is when a pod that was changed with its gate open can have become ready at the earliest: when it was patched, or the last of the containers that
// were recreated for that was started.
func readyAfter(p *corev1.Pod, state *kruise.InPlaceState, since time.Time) rollout.Time {
	if state == nil || !state.GateOpen {
		return 0
	}
	for c := range LongRunning(&p.Spec) {
		s := statusOf(p, c.Name)
		if s == nil {
			continue
		}
		_, changed := state.LastContainerStatuses[s.Name]
		_, restarted := state.Restarts[s.Name]
		if (changed || restarted) && s.State.Running != nil && s.State.Running.StartedAt.After(since) {
			since = s.State.Running.StartedAt.Time
		}
	}
	return rollout.Time(since.UnixNano())
}

// recreates is how many containers of a pod a change still restarts.
func recreates(p *corev1.Pod, state *kruise.InPlaceState) (n uint8) {
	if state == nil {
		return 0
	}
	still := func(name, id string) {
		if s := statusOf(p, name); (s == nil || s.ContainerID == id) && n < math.MaxUint8 {
			n++
		}
	}
	for name, before := range state.LastContainerStatuses {
		still(name, before.ContainerID)
	}
	for name, id := range state.Restarts {
		still(name, id)
	}
	return n
}

// unopened reports whether a gate's condition was never written, as on a new pod.
func unopened(p *corev1.Pod, gate corev1.PodConditionType) bool {
	return hasGate(p, gate) && condition(p, gate) == nil
}

// stranded reports whether the hook keeps a pod not ready that is not prepared to be deleted: the preparation was interrupted and has not been resumed.
func stranded(p *corev1.Pod) bool {
	return hasGate(p, kruise.KruisePodReady) && HeldByHook(p) &&
		p.Labels[kruise.LifecycleState] != kruise.LifecyclePreparingDelete
}

// messages returns the entries that keep KruisePodReady False; readable reports whether the whole message can be parsed.
func messages(p *corev1.Pod) (list []kruise.NotReadyMessage, readable bool) {
	c := condition(p, kruise.KruisePodReady)
	if c == nil || c.Status == corev1.ConditionTrue || c.Message == "" {
		return nil, true
	}
	if json.Unmarshal([]byte(c.Message), &list) != nil {
		return nil, false
	}
	return list, true
}

// HeldByHook reports whether the preDelete hook is among what keeps the pod not ready.
func HeldByHook(p *corev1.Pod) bool {
	list, _ := messages(p)
	return slices.Contains(list, hookMessage())
}

// stateOf reads the state of the last change in place and its time; nil when there is none or it cannot be read.
func stateOf(p *corev1.Pod) (*kruise.InPlaceState, time.Time) {
	text, ok := annotation(p, kruise.InPlaceUpdateState, kruise.InPlaceUpdateStateOld)
	state := &kruise.InPlaceState{}
	if !ok || json.Unmarshal([]byte(text), state) != nil {
		return nil, time.Time{}
	}
	since, err := time.Parse(time.RFC3339, state.UpdateTimestamp)
	if err != nil {
		return nil, time.Time{}
	}
	for name, before := range state.LastSidecarStatuses {
		if state.LastContainerStatuses == nil {
			state.LastContainerStatuses = map[string]kruise.InPlaceContainer{}
		}
		state.LastContainerStatuses[name] = before
	}
	state.LastSidecarStatuses = nil
	return state, since
}

// encodeState is the text of a state, in which sidecars are listed apart.
func encodeState(p *corev1.Pod, state *kruise.InPlaceState) string {
	apart := *state
	for i := range p.Spec.InitContainers {
		name := p.Spec.InitContainers[i].Name
		before, waits := apart.LastContainerStatuses[name]
		if !waits {
			continue
		}
		if apart.LastSidecarStatuses == nil {
			apart.LastSidecarStatuses, apart.LastContainerStatuses = map[string]kruise.InPlaceContainer{}, maps.Clone(apart.LastContainerStatuses)
		}
		apart.LastSidecarStatuses[name] = before
		delete(apart.LastContainerStatuses, name)
	}
	text, _ := json.Marshal(apart) // strings can always be encoded
	return string(text)
}

// annotation is the value of the first of the keys that the pod has.
func annotation(p *corev1.Pod, keys ...string) (string, bool) {
	for _, key := range keys {
		if text, ok := p.Annotations[key]; ok {
			return text, true
		}
	}
	return "", false
}

// arrival reports whether a node runs what a pod was patched to.
type arrival uint8

const (
	arrivalAwaited arrival = iota // it does not
	arrivalOpen                   // the container was recreated, or runs the wanted image, but it is not certain that it will not be replaced
	arrivalSeen                   // it does
)

// arrivesWithin is how long an uncertain arrival stays uncertain after a patch. By then, a healthy node has
// processed the patch, and if it had restarted the old image before, it has reported a new container since.
const arrivesWithin = time.Minute

// arrivalOf returns how far a change in place has reached the node. It has arrived when the kubelet has
// observed the newest generation of the pod (if it reports that), and each container whose image was changed
// has been recreated, or runs the image that a change was undone to. A new tag of the same digest counts,
// because the kubelet recreates the container in this case too. A state that OpenKruise wrote contains only
// image IDs to compare.
func arrivalOf(p *corev1.Pod, state *kruise.InPlaceState) arrival {
	if p.Status.ObservedGeneration != 0 && p.Status.ObservedGeneration < p.Generation {
		return arrivalAwaited
	}
	if state.UpdateResources && !resized(p) || !restarted(p, state) {
		return arrivalAwaited
	}
	all := arrivalSeen
	for name, before := range state.LastContainerStatuses {
		now := statusOf(p, name)
		if now == nil {
			return arrivalAwaited
		}
		// If no gate shows that the change has been completed, the container may have crashed since.
		another := state.GateOpen && before.ContainerID != "" && now.ContainerID != "" && now.ContainerID != before.ContainerID
		if now.State.Running == nil && !another {
			return arrivalAwaited
		}
		switch {
		case before == kruise.InPlaceContainer{Superseded: true}: // it may be the same container
		case before.ContainerID != "" && now.ContainerID != before.ContainerID:
		case before.ContainerID != "" && p.Status.ObservedGeneration != 0 && runsWanted(p, now):
			all = arrivalOpen // perhaps a webhook has restored the old image, and it stays
			continue
		case before.ContainerID != "":
			return arrivalAwaited
		case now.ImageID == before.ImageID && !startedAfter(now, state):
			return arrivalAwaited
		}
		if mayBeOlder(before) && !runsWanted(p, now) || p.Status.ObservedGeneration == 0 && restartedMaybe(p, now, before) {
			all = arrivalOpen
		}
	}
	return all
}

// mayBeOlder reports whether a container that was recreated since the patch may nevertheless have an earlier image: the node had not reported it
// then, and was perhaps about to start it.
func mayBeOlder(before kruise.InPlaceContainer) bool {
	return before.Superseded || before == kruise.InPlaceContainer{}
}

// restartedMaybe reports whether a container may be a restart of the old one, for example after a crash just
// after the patch: its image has the same ID as before, and not the wanted name. But the new name may also be
// another name of the same image; then a runtime may report either name.
func restartedMaybe(p *corev1.Pod, now *corev1.ContainerStatus, before kruise.InPlaceContainer) bool {
	return now.ImageID != "" && now.ImageID == before.ImageID && !runsWanted(p, now)
}

// runsWanted reports whether a container runs what the pod wants, as far as the name of its image shows. A node that has seen the pod's newest generation
// may still report a container that it has made for an earlier one, and is about to recreate.
func runsWanted(p *corev1.Pod, now *corev1.ContainerStatus) bool {
	for c := range LongRunning(&p.Spec) {
		if c.Name == now.Name {
			return sameImage(now.Image, c.Image)
		}
	}
	return true
}

func startedAfter(s *corev1.ContainerStatus, state *kruise.InPlaceState) bool {
	since, err := time.Parse(time.RFC3339, state.UpdateTimestamp)
	return err == nil && s.State.Running.StartedAt.After(since)
}
