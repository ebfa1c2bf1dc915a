// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/internal/ota"
)

// podHandler serves an authorized request about one pod.
type podHandler func(w http.ResponseWriter, r *http.Request, name types.NamespacedName) *problem

// podRoute returns a route for one pod, for callers that are allowed that verb on it.
func (a *API) podRoute(verb string, serve podHandler) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		name := podName(r)
		caller, p := a.identify(r)
		if p == nil {
			if err := validName(name); err != nil {
				p = &problem{code: http.StatusBadRequest, message: err.Error()}
			}
		}
		if p == nil {
			p = a.authorize(r.Context(), caller, verb, name)
		}
		if p == nil {
			p = serve(w, r, name)
		}
		if p != nil {
			writeProblem(w, r, p)
		}
	}
}

// validName validates the names in a path.
func validName(name types.NamespacedName) error {
	if wrong := validation.ValidateNamespaceName(name.Namespace, false); len(wrong) > 0 {
		return fmt.Errorf("%q is not the name of a namespace: %s", name.Namespace, strings.Join(wrong, "; "))
	}
	if wrong := validation.NameIsDNSSubdomain(name.Name, false); len(wrong) > 0 {
		return fmt.Errorf("%q is not the name of a pod: %s", name.Name, strings.Join(wrong, "; "))
	}
	return nil
}

// listPods is GET /v2/pods. A caller that may not read all namespaces gets the pods of those that it may read.
func (a *API) listPods(w http.ResponseWriter, r *http.Request) {
	caller, p := a.identify(r)
	if p != nil {
		writeProblem(w, r, p)
		return
	}
	ctx := r.Context()
	pods, seen, err := a.o.Pods.Pods()
	if err != nil || !seen {
		writeProblem(w, r, unseen(err))
		return
	}
	list := v2.PodList{Node: a.o.Node, Connected: a.o.Cluster.Connected(ctx), Pods: []v2.Pod{}}
	readable := a.readable(ctx, caller)
	for _, pod := range pods {
		may, p := readable(pod.Namespace)
		if p != nil {
			writeProblem(w, r, p)
			return
		}
		if may {
			next, old, _ := ota.Announced(pod)
			if !old {
				next = ""
			}
			list.Pods = append(list.Pods, a.view(pod, next))
		}
	}
	writeJSON(w, http.StatusOK, list)
}

// readable returns a function that checks whether the caller may read the pods of a namespace, with one review for each
// namespace and one for all.
func (a *API) readable(ctx context.Context, caller caller) func(namespace string) (bool, *problem) {
	known := map[string]bool{}
	ask := func(namespace string) (bool, *problem) {
		if may, ok := known[namespace]; ok {
			return may, nil
		}
		p := a.authorize(ctx, caller, verbRead, types.NamespacedName{Namespace: namespace})
		if p != nil && p.code != http.StatusForbidden {
			return false, p
		}
		known[namespace] = p == nil
		return known[namespace], nil
	}
	return func(namespace string) (bool, *problem) {
		if all, p := ask(""); all || p != nil {
			return all, p
		}
		return ask(namespace)
	}
}

// unseen is the problem that the pods of the node are not known.
func unseen(err error) *problem {
	if err != nil {
		return &problem{code: http.StatusInternalServerError, message: "the pods of the node cannot be read: " + err.Error()}
	}
	return &problem{code: http.StatusServiceUnavailable, message: "the agent has not read the pods of the node yet: it has not reached the cluster since it was installed"}
}

// ownPod returns a pod of the node, as the node knows it.
func (a *API) ownPod(name types.NamespacedName) (*corev1.Pod, *problem) {
	pods, seen, err := a.o.Pods.Pods()
	if err != nil || !seen {
		return nil, unseen(err)
	}
	for _, pod := range pods {
		if nameOf(pod) == name {
			return pod, nil
		}
	}
	return nil, &problem{code: http.StatusNotFound, message: fmt.Sprintf("there is no pod %s on this node", name)}
}

// getPod is GET /v2/pods/{namespace}/{name}.
func (a *API) getPod(w http.ResponseWriter, r *http.Request, name types.NamespacedName) *problem {
	pod, p := a.ownPod(name)
	if p != nil {
		return p
	}
	next, old, said := ota.Announced(pod)
	if owner, ok := ownerOf(pod); ok && !said && isAdvanced(owner) && a.o.Cluster.Connected(r.Context()) {
		var err error
		if next, old, err = a.next(r.Context(), pod); err != nil {
			return problemOf(err)
		}
	}
	if !old {
		next = ""
	}
	writeJSON(w, http.StatusOK, a.view(pod, next))
	return nil
}

// view converts a pod to the form of the API.
func (a *API) view(pod *corev1.Pod, next string) v2.Pod {
	view := v2.Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Phase: string(pod.Status.Phase),
		Deleting: pod.DeletionTimestamp != nil, Revision: pod.Labels[hashLabel], NextRevision: next, Images: ota.ImagesOf(pod, next),
	}
	if c := ota.Condition(pod, corev1.PodReady); c != nil {
		view.Ready = c.Status == corev1.ConditionTrue
	}
	if owner, ok := ownerOf(pod); ok {
		view.Owner = strings.TrimSuffix(owner.Kind+"."+groupOf(owner), ".") + "/" + owner.Name
	}
	d, err := a.o.Decisions.Decision(nameOf(pod))
	if err != nil {
		klog.ErrorS(err, "A decision cannot be read", "pod", klog.KObj(pod))
	}
	view.Decision = d
	return view
}

// livePod reads a pod from the API server.
func (a *API) livePod(ctx context.Context, name types.NamespacedName) (*corev1.Pod, *problem) {
	if !a.o.Cluster.Connected(ctx) {
		return nil, &problem{code: http.StatusServiceUnavailable, message: "the cluster cannot be reached: use ?when=connected to keep the upgrade until it can"}
	}
	pod, err := a.o.Cluster.Pod(ctx, name)
	if err != nil {
		return nil, problemOf(err)
	}
	return pod, nil
}

// postUpgrade is POST …/upgrade.
func (a *API) postUpgrade(w http.ResponseWriter, r *http.Request, name types.NamespacedName) *problem {
	want := v2.Precondition{}
	if p := decodeBody(r, &want); p != nil {
		return p
	}
	switch r.URL.RawQuery {
	case "when=" + v2.WhenConnected:
		return a.keepDecision(w, r, name, want)
	case "":
	default: // a misspelled ?when must not upgrade the pod now
		return &problem{code: http.StatusBadRequest, message: fmt.Sprintf("?%s is unknown: remove it, or use ?when=%s", r.URL.RawQuery, v2.WhenConnected)}
	}
	pod, p := a.livePod(r.Context(), name)
	if p != nil {
		return p
	}
	next, err := a.checkUpgrade(r.Context(), pod)
	if err == nil {
		err = firstOf(checkPrecondition(pod, next, want))
	}
	if err == nil {
		err = a.delete(r.Context(), pod, want.Revision != "")
	}
	if apierrors.IsNotFound(err) {
		err = &refusal{reason: v2.ReasonDeleting, text: "the pod has been deleted"}
	}
	if err != nil {
		return problemOf(err)
	}
	klog.InfoS("Upgrading a pod", "pod", klog.KObj(pod), "uid", pod.UID, "revision", next)
	writeJSON(w, http.StatusOK, v2.Upgrade{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Revision: next})
	return nil
}

// postImagePull is POST …/imagepull.
func (a *API) postImagePull(w http.ResponseWriter, r *http.Request, name types.NamespacedName) *problem {
	want := v2.Precondition{}
	if p := decodeBody(r, &want); p != nil {
		return p
	}
	pod, p := a.livePod(r.Context(), name)
	if p != nil {
		return p
	}
	images, err := a.requestImages(r.Context(), pod, want)
	if err != nil {
		return problemOf(err)
	}
	writeJSON(w, http.StatusOK, v2.ImagePull{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Images: images})
	return nil
}
