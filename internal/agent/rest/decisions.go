// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/internal/ota"
)

// How often decisions are checked. Up to half of the interval is added, so that nodes that reconnect together do not
// all send requests at once.
const (
	pendingInterval = 5 * time.Second
	voidInterval    = time.Minute
	jitter          = 0.5
	// decisionTimeout is the timeout for one decision.
	decisionTimeout = 10 * time.Second
)

// keepDecision is POST …/upgrade?when=connected: the decision is on disk before the response is sent.
func (a *API) keepDecision(w http.ResponseWriter, r *http.Request, name types.NamespacedName, want v2.Precondition) *problem {
	pod, p := a.ownPod(name)
	if p != nil {
		return p
	}
	next, err := a.checkDecision(r.Context(), pod, want)
	if err != nil {
		return problemOf(err)
	}
	a.deciding.Lock()
	defer a.deciding.Unlock()
	before, err := a.o.Decisions.Decision(name)
	if err != nil {
		return storeFailed(err)
	}
	d := v2.Decision{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Revision: next, State: v2.DecisionPending, Made: a.o.Now().UTC(),
	}
	if before != nil && before.State == d.State && before.UID == d.UID && before.Revision == d.Revision {
		d = *before // a repeated request is the same decision
	} else if err := a.o.Decisions.Decide(d); err != nil {
		return storeFailed(err)
	}
	klog.InfoS("Keeping a decision", "pod", name, "uid", d.UID, "revision", d.Revision)
	a.wake()
	writeJSON(w, http.StatusAccepted, d)
	return nil
}

// checkDecision returns the revision of a decision. It uses what is known without the cluster, because the decision is
// checked again before it is executed. Missing images are not a reason to refuse it.
func (a *API) checkDecision(ctx context.Context, pod *corev1.Pod, want v2.Precondition) (string, error) {
	if r := a.checkPod(pod); r != nil {
		return "", r
	}
	if isStatic(pod) {
		return "", staticPod()
	}
	next, old, said := ota.Announced(pod)
	if owner, ok := ownerOf(pod); ok && !said && isAdvanced(owner) {
		if !a.o.Cluster.Connected(ctx) {
			return want.Revision, firstOf(checkPrecondition(pod, want.Revision, want), checkNamedByCaller(want))
		}
		var err error
		if next, old, err = a.next(ctx, pod); err != nil {
			return "", err
		}
	}
	if !old {
		return "", upToDate(pod)
	}
	return next, firstOf(checkPrecondition(pod, next, want), checkOwner(pod), checkNamed(next))
}

// checkNamedByCaller refuses a decision for a revision whose name neither the agent nor the caller knows.
func checkNamedByCaller(want v2.Precondition) *refusal {
	if want.Revision != "" {
		return nil
	}
	return &refusal{reason: v2.ReasonDisconnected, text: "the next revision of a pod of an Advanced DaemonSet is not known without the cluster: name it in the body"}
}

func storeFailed(err error) *problem {
	return &problem{code: http.StatusInternalServerError, message: "the decision cannot be kept: " + err.Error()}
}

func noDecision(name types.NamespacedName) *problem {
	return &problem{code: http.StatusNotFound, message: fmt.Sprintf("there is no decision about the pod %s", name)}
}

// getDecision is GET …/upgrade.
func (a *API) getDecision(w http.ResponseWriter, _ *http.Request, name types.NamespacedName) *problem {
	d, err := a.o.Decisions.Decision(name)
	switch {
	case err != nil:
		return &problem{code: http.StatusInternalServerError, message: err.Error()}
	case d == nil:
		return noDecision(name)
	}
	writeJSON(w, http.StatusOK, d)
	return nil
}

// deleteDecision is DELETE …/upgrade. The response is the withdrawn decision.
func (a *API) deleteDecision(w http.ResponseWriter, _ *http.Request, name types.NamespacedName) *problem {
	a.deciding.Lock()
	defer a.deciding.Unlock()
	d, err := a.o.Decisions.Decision(name)
	if err == nil && d == nil {
		return noDecision(name)
	}
	if err == nil {
		err = a.o.Decisions.Forget(*d)
	}
	if err != nil {
		return &problem{code: http.StatusInternalServerError, message: "the decision cannot be withdrawn: " + err.Error()}
	}
	klog.InfoS("A decision was withdrawn", "pod", name, "uid", d.UID, "revision", d.Revision)
	writeJSON(w, http.StatusOK, d)
	return nil
}

// wake makes Run check the decisions now.
func (a *API) wake() {
	select {
	case a.decided <- struct{}{}:
	default:
	}
}

// Run executes decisions until ctx ends. While there is none, it sends no requests.
func (a *API) Run(ctx context.Context) {
	for {
		again := a.CarryOut(ctx)
		timer := time.NewTimer(wait.Jitter(again, jitter))
		after := timer.C
		if again == 0 {
			after = nil
		}
		select {
		case <-ctx.Done():
		case <-a.decided:
		case <-after:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// CarryOut checks all decisions once, and returns when to check again; 0 means when there is a new one.
func (a *API) CarryOut(ctx context.Context) time.Duration {
	all, err := a.o.Decisions.Decisions()
	if err != nil {
		klog.ErrorS(err, "The decisions cannot be read")
		return voidInterval
	}
	again := time.Duration(0)
	for _, d := range all {
		if ctx.Err() != nil || !a.o.Cluster.Connected(ctx) {
			return pendingInterval
		}
		if err := a.carryOut(ctx, d); err != nil {
			klog.ErrorS(err, "Carrying out a decision failed and will be retried", "pod", d.Namespace+"/"+d.Name, "revision", d.Revision)
			again = pendingInterval
		} else if again == 0 {
			again = voidInterval // void decisions, and those that wait for images, are still there
		}
	}
	return again
}

// carryOut checks one decision and executes it if possible. The decision is removed after the pod was deleted. After a
// crash in between it is checked again: then the pod does not exist, is being deleted, or is another one, and each of
// these ends the decision. After an error it is checked again soon.
func (a *API) carryOut(ctx context.Context, d v2.Decision) error {
	ctx, cancel := context.WithTimeout(ctx, decisionTimeout) // an API server that never answers must not block new decisions
	defer cancel()
	a.deciding.Lock()
	defer a.deciding.Unlock()
	name := types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
	if now, err := a.o.Decisions.Decision(name); err != nil || now == nil || *now != d {
		return err // withdrawn or replaced since it was read
	}
	pod, err := a.o.Cluster.Pod(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return a.o.Decisions.Forget(d)
	case err != nil:
		return err
	case string(pod.UID) != d.UID, pod.DeletionTimestamp != nil:
		return a.o.Decisions.Forget(d)
	case d.State != v2.DecisionPending:
		return nil
	}
	err = a.checkDue(ctx, pod, d)
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		return a.recordRefusal(pod, d, refused)
	}
	if err == nil {
		err = a.delete(ctx, pod, true)
	}
	if err != nil {
		return err
	}
	klog.InfoS("Carried out a decision", "pod", name, "uid", d.UID, "revision", d.Revision)
	a.o.Event(pod, corev1.EventTypeNormal, ReasonUpgradeStarted,
		fmt.Sprintf("The owner of node %s has decided to upgrade the pod to revision %s", a.o.Node, d.Revision))
	return a.o.Decisions.Forget(d)
}

// checkDue returns why a decision cannot be executed now, as a refusal or as an error.
func (a *API) checkDue(ctx context.Context, pod *corev1.Pod, d v2.Decision) error {
	next, err := a.checkUpgrade(ctx, pod)
	if err != nil && next == "" {
		return err
	}
	// This comes before the check of images: a decision does not wait for the images of another revision.
	if refused := checkPrecondition(pod, next, v2.Precondition{Revision: d.Revision}); refused != nil {
		return refused
	}
	if changed := a.checkNewest(ctx, pod, d.Revision); changed != nil {
		return changed
	}
	return err
}

// checkNewest refuses a decision for another revision than the newest of the set. The condition of the pod may be
// outdated: if the manager was down when the template changed, it does not name the new revision yet, and the decision
// is not for that revision.
func (a *API) checkNewest(ctx context.Context, pod *corev1.Pod, decided string) error {
	owner, _ := ownerOf(pod)
	if _, _, said := ota.Announced(pod); !said || checkOwner(pod) != nil {
		return nil // it was already compared with its set, or is refused anyway
	}
	newest, err := a.o.Cluster.Newest(ctx, pod.Namespace, owner.UID, decided)
	switch {
	case err != nil:
		return fmt.Errorf("asking for the newest revision: %w", err)
	case newest == "":
		return &refusal{reason: v2.ReasonChanged, text: "the set of the pod has no revision now"}
	}
	return firstOf(checkPrecondition(pod, newest, v2.Precondition{Revision: decided}))
}

// recordRefusal records why a decision is not executed. While images are missing it waits, and is checked again soon.
func (a *API) recordRefusal(pod *corev1.Pod, d v2.Decision, why *refusal) error {
	waits := why.reason == v2.ReasonImagesNotReady && ota.ImagesOf(pod, d.Revision).Revision == d.Revision
	if d.Message == why.text && waits {
		return why
	}
	d.Message = why.text
	if !waits {
		d.State = v2.DecisionVoid
		a.o.Event(pod, corev1.EventTypeWarning, ReasonUpgradeVoid,
			fmt.Sprintf("The decision to upgrade the pod to revision %s is void: %s", d.Revision, why.text))
	}
	if err := a.o.Decisions.Decide(d); err != nil || !waits {
		return err
	}
	return why
}
