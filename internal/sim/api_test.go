// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
)

// podsOf are the pods as a manager reads and writes them.
type podsOf struct {
	m *manager
	// slow is whether no pass waits for the writes.
	slow bool
}

func (f podsOf) Create(ctx context.Context, u *unstructured.Unstructured) (*corev1.Pod, error) {
	w := f.m.s.w
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "containers")
	image, _ := containers[0].(map[string]any)["image"].(string)
	node := nodeOfUndecoded(u)
	if !isPeers(u.GetName()) {
		f.m.s.name(u.GetName(), node)
	}
	return ask[*corev1.Pod](f.m, &request{
		text: words("creates a pod of %s on %s", image, node), write: true, ofPod: true, slow: f.slow, of: decidedIn(ctx), peerPass: peerPassIn(ctx),
		action: action{verb: "create", pod: u.GetName(), node: node, image: image, hash: u.GetLabels()[appsv1.DefaultDaemonSetUniqueLabelKey], owner: ownerIn(u)},
		commit: func() (any, error) { return orNil(w.createPod(u)) },
	})
}

func (f podsOf) Delete(ctx context.Context, space, name string, only metav1.Preconditions) error {
	_, err := f.m.ask(&request{
		text: words("deletes %s", f.m.nameOf(name)), write: true, ofPod: true, slow: f.slow, of: decidedIn(ctx), peerPass: peerPassIn(ctx),
		versioned: only.ResourceVersion != nil,
		action:    action{verb: "delete", pod: name, uid: string(ptr.Deref(only.UID, "")), namespace: space},
		commit: func() (any, error) {
			p := f.m.s.w.pod(name)
			err := f.m.s.w.deletePod(name, only)
			if err == nil {
				f.m.s.judgeEffect(f.m, p)
			}
			return nil, err
		},
	})
	return err
}

func (f podsOf) Get(_ context.Context, _, name string) (*corev1.Pod, error) {
	return ask[*corev1.Pod](f.m, &request{
		text: words("looks at %s", f.m.nameOf(name)), action: action{verb: "get", pod: name},
		commit: func() (any, error) { return f.m.s.w.getPod(name) },
	})
}

// found is the answer to a Find.
type found struct {
	pod *corev1.Pod
	rv  int
}

func (f podsOf) Find(_ context.Context, _, name string) (*corev1.Pod, string, error) {
	answer, err := ask[found](f.m, &request{
		text: words("looks at %s", f.m.nameOf(name)), action: action{verb: "find", pod: name},
		commit: func() (any, error) {
			return found{f.m.s.w.pod(name).DeepCopy(), f.m.s.w.rv}, nil
		},
	})
	return answer.pod, strconv.Itoa(answer.rv), err
}

// GetSince may be answered with the newest version, or with the oldest one that will do.
func (f podsOf) GetSince(_ context.Context, _, name, rv string) (*corev1.Pod, error) {
	since, _ := strconv.Atoi(rv)
	return ask[*corev1.Pod](f.m, &request{
		text: words("looks for %s", f.m.nameOf(name)), action: action{verb: "see", pod: name},
		commit: func() (any, error) { return f.m.s.w.getPod(name) },
		stale: func() (any, error) {
			for _, e := range f.m.s.w.logs[ofPods][f.m.s.w.since[ofPods]:] {
				if p := e.object.(*corev1.Pod); p.Name == name && !e.gone && e.rv >= since && since > 0 {
					return p.DeepCopy(), nil
				}
			}
			return f.m.s.w.getPod(name)
		},
	})
}

func (f podsOf) List(_ context.Context, _ string, selector labels.Selector, each func(*corev1.Pod)) error {
	list, err := ask[[]*corev1.Pod](f.m, &request{text: "reads all pods", action: action{verb: "list"}, commit: func() (any, error) {
		var list []*corev1.Pod
		for _, p := range f.m.s.w.pods() {
			if selector.Matches(labels.Set(p.Labels)) {
				list = append(list, p.DeepCopy())
			}
		}
		return list, nil
	}})
	for _, p := range list {
		each(p)
	}
	return err
}

func (f podsOf) Patch(ctx context.Context, e executor.PodPatch) (*corev1.Pod, error) {
	of := string(e.Of)
	return ask[*corev1.Pod](f.m, &request{
		text: patchWords(of, string(e.Body), f.m.nameOf(e.Pod)), write: true, ofPod: true, slow: f.slow, of: decidedIn(ctx), peerPass: peerPassIn(ctx),
		action: action{verb: patchVerb(string(e.Body)), pod: e.Pod, uid: uidIn(e.Body), namespace: e.Namespace, takes: takesAway(string(e.Body))},
		commit: func() (any, error) { return orNil(f.m.s.w.patchPod(e.Pod, of, e.Body)) },
	})
}

// nameOf is a pod in the story: its UID if it is there, else its node.
func (m *manager) nameOf(pod string) string {
	if p := m.s.w.pod(pod); p != nil {
		return string(p.UID)
	}
	m.s.named.Lock()
	defer m.s.named.Unlock()
	return cmp.Or(m.s.names[pod], "a pod")
}

// ownerIn is the UID of the controller that a new pod names; empty if it names none.
func ownerIn(u *unstructured.Unstructured) string {
	if owner := metav1.GetControllerOf(u); owner != nil {
		return string(owner.UID)
	}
	return ""
}

// uidIn is the UID that a patch names; empty if it names none.
func uidIn(patch []byte) string {
	var body struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(patch, &body); err != nil {
		return ""
	}
	return string(body.Metadata.UID)
}

// patchVerb tells patches that change what a pod is from those that only say whose it is, or what is newer than it.
func patchVerb(body string) string {
	switch {
	case strings.Contains(body, "ownerReferences"):
		return "own"
	case strings.Contains(body, string(openyurt.PodNeedUpgrade)):
		return "announce"
	default:
		return "patch"
	}
}

// patchWords say what a patch of a pod is for.
func patchWords(of, body, pod string) string {
	has := func(text string) bool { return strings.Contains(body, text) }
	switch {
	case has(api.LifecyclePreparingDelete):
		return "prepares " + pod
	case has(api.LifecycleState):
		return "restores " + pod
	case of == "status" && has(string(openyurt.PodNeedUpgrade)):
		return "announces to " + pod
	case of == "status" && takesAway(body):
		return "closes a gate of " + pod
	case of == "status":
		return "opens the gates of " + pod
	case has("ownerReferences"):
		return "changes the owner of " + pod
	default:
		return "changes in place " + pod
	}
}

// takesAway is whether a pod does not serve any more after a patch: it is prepared to be deleted, a gate of it is closed, or it is changed with its gate open.
func takesAway(body string) bool {
	gate := strings.Contains(body, string(api.InPlaceUpdateReady)) || strings.Contains(body, string(api.KruisePodReady))
	return strings.Contains(body, api.LifecyclePreparingDelete) || gate && strings.Contains(body, `"status":"False"`) || strings.Contains(body, `\"gateOpen\":true`)
}

// orNil makes a nil pointer a nil value.
func orNil[T any](value *T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return value, nil
}

func nodeOfUndecoded(u *unstructured.Unstructured) string {
	terms, _, _ := unstructured.NestedSlice(u.Object, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	for _, term := range terms {
		fields, _, _ := unstructured.NestedSlice(term.(map[string]any), "matchFields")
		for _, field := range fields {
			values, _, _ := unstructured.NestedStringSlice(field.(map[string]any), "values")
			return values[0]
		}
	}
	return ""
}

// revisionsOf are the ControllerRevisions as a manager reads and writes them.
type revisionsOf struct{ m *manager }

func (f revisionsOf) Create(_ context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	return ask[*appsv1.ControllerRevision](f.m, &request{
		text: words("creates revision %s with number %d", r.Name, r.Revision), write: true, peer: isPeers(r.Name), action: action{verb: "create a revision", image: r.Name},
		commit: func() (any, error) { return orNil(f.m.s.w.createRevision(r)) },
	})
}

func (f revisionsOf) Get(_ context.Context, _, name string) (*appsv1.ControllerRevision, error) {
	return ask[*appsv1.ControllerRevision](f.m, &request{text: words("looks at revision %s", name), peer: isPeers(name), action: action{verb: "look", hash: name}, commit: func() (any, error) {
		if r := f.m.s.w.revision(name); r != nil {
			return r.DeepCopy(), nil
		}
		return nil, apierrors.NewNotFound(podResource("controllerrevisions"), name)
	}})
}

func (f revisionsOf) List(_ context.Context, _ string, selector labels.Selector, each func(*appsv1.ControllerRevision)) error {
	list, err := ask[[]*appsv1.ControllerRevision](f.m, &request{text: "reads all revisions", commit: func() (any, error) {
		var list []*appsv1.ControllerRevision
		for _, o := range f.m.s.w.all(ofRevisions) {
			if selector.Matches(labels.Set(o.GetLabels())) {
				list = append(list, copyOf(o).(*appsv1.ControllerRevision))
			}
		}
		return list, nil
	}})
	for _, r := range list {
		each(r)
	}
	return err
}

func (f revisionsOf) Patch(_ context.Context, _, name string, patch []byte) (*appsv1.ControllerRevision, error) {
	return ask[*appsv1.ControllerRevision](f.m, &request{
		text: words("patches revision %s", name), write: true, peer: isPeers(name), action: action{verb: revisionVerb(string(patch)), image: name},
		commit: func() (any, error) { return orNil(f.m.s.w.patchRevision(name, patch)) },
	})
}

// revisionVerb tells patches that say whose a revision is from others.
func revisionVerb(body string) string {
	if strings.Contains(body, "ownerReferences") {
		return "own a revision"
	}
	return ""
}

func (f revisionsOf) Delete(_ context.Context, _, name string, uid types.UID) error {
	_, err := f.m.ask(&request{
		text: words("deletes revision %s", name), write: true, peer: isPeers(name),
		commit: func() (any, error) { return nil, f.m.s.w.deleteRevision(name, uid) },
	})
	return err
}

// setsOf is the daemon set as a manager reads and writes it.
type setsOf struct{ m *manager }

func (f setsOf) Get(_ context.Context, key clustercache.Key) (*unstructured.Unstructured, error) {
	return ask[*unstructured.Unstructured](f.m, &request{text: "looks at the " + setWord(key.Name), peer: key.Name == peerName, commit: func() (any, error) {
		if set, is := f.m.s.w.state[ofSets][key.Name].(*unstructured.Unstructured); is {
			return set.DeepCopy(), nil
		}
		return nil, apierrors.NewNotFound(podResource("daemonsets"), key.Name)
	}})
}

func (f setsOf) PatchStatus(_ context.Context, key clustercache.Key, patch []byte) (*unstructured.Unstructured, error) {
	text := "writes the status"
	if key.Name == peerName {
		text += " of the peer"
	}
	return ask[*unstructured.Unstructured](f.m, &request{
		text: text, write: true, peer: key.Name == peerName, action: action{verb: "status", image: string(patch)},
		commit: func() (any, error) { return orNil(f.m.s.w.patchStatus(key.Name, patch)) },
	})
}

// setWord is a set in the story.
func setWord(name string) string {
	if name == peerName {
		return name
	}
	return "set"
}
