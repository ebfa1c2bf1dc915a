// SPDX-License-Identifier: Apache-2.0

// Package conflict detects other controllers that reconcile the same DaemonSets, so that two controllers never change
// the same sets.
//
// The probe is a DaemonSet in Everynode's own namespace that matches no node and that our own controller ignores. From
// time to time it gets a new generation. If its status.observedGeneration changes to that number, another controller is
// active. The native dialect writes only while none is.
package conflict

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/api/everynode"
)

// ReasonConflict reports that another controller reconciles the DaemonSets of apps/v1, so that the native dialect writes
// nothing.
const ReasonConflict = "ConflictingController"

// Intervals of the check. An idle controller observes the probe within milliseconds; a very busy one is detected by a
// later read of the same generation.
const (
	answerWithin = 3 * time.Second
	lookEvery    = 10 * time.Second
	askEvery     = 10 * time.Minute
	askAgain     = 30 * time.Second // while there is a conflict
)

// Message describes the problem and the remedy.
const Message = "another controller reconciles the DaemonSets of apps/v1, so the native dialect writes nothing: " +
	"either start kube-controller-manager with --controllers=*,-daemonset, or leave native out of --dialects of everynode-manager"

// Guard checks the probe. Create it with New.
type Guard struct {
	client    kubernetes.Interface
	namespace string
	events    record.EventRecorder
	clock     clock.WithTicker
	// changed is called when the result of MayWrite has changed.
	changed func(mayWrite bool)

	permit permit
	// asked is the generation that no other controller should observe.
	asked int64
	uid   types.UID
}

// Options are the parts of a Guard; all are required.
type Options struct {
	Client    kubernetes.Interface
	Namespace string
	Events    record.EventRecorder
	Clock     clock.WithTicker
	// Settle is called before MayWrite becomes true again.
	Settle Settle
	// Changed is called from Run when the result of MayWrite has changed.
	Changed func(mayWrite bool)
}

// New returns a Guard that allows no writes before the first check of Run.
func New(o Options) *Guard {
	return &Guard{client: o.Client, namespace: o.Namespace, events: o.Events, clock: o.Clock, changed: o.Changed, permit: permit{settle: o.Settle}}
}

// MayWrite reports whether no other controller was detected.
func (g *Guard) MayWrite() bool { return g.permit.may.Load() }

// Other reports whether the last check found another controller; false before the first one.
func (g *Guard) Other() bool { return g.permit.other.Load() }

// Run checks immediately and then at intervals until ctx ends.
func (g *Guard) Run(ctx context.Context) {
	var lastAsked time.Time
	for ctx.Err() == nil {
		every := askEvery
		if !g.permit.may.Load() {
			every = askAgain
		}
		var other, again bool
		var err error
		if now := g.clock.Now(); lastAsked.IsZero() || now.Sub(lastAsked) >= every {
			if other, err = g.ask(ctx); err == nil {
				lastAsked = now
			}
		} else {
			other, err = g.observed(ctx)
		}
		if err == nil {
			again = g.decide(ctx, other)
		} else if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Could not determine whether another controller reconciles DaemonSets; retrying")
			if g.permit.fail() {
				g.changed(false)
			}
		}
		if !again {
			g.sleep(ctx, err)
		}
	}
}

func (g *Guard) sleep(ctx context.Context, err error) {
	pause := lookEvery
	if err != nil {
		pause = time.Second
	}
	select {
	case <-ctx.Done():
	case <-g.clock.After(pause):
	}
}

// decide uses the result of a check, and reports whether to check again immediately.
func (g *Guard) decide(ctx context.Context, other bool) (again bool) {
	if other {
		g.events.Event(g.probe(), corev1.EventTypeWarning, ReasonConflict, Message)
	}
	changed, again := g.permit.decide(ctx, other)
	if !changed {
		return again
	}
	if other {
		klog.FromContext(ctx).Error(nil, Message)
	} else {
		klog.FromContext(ctx).Info("No other controller reconciles the DaemonSets of apps/v1; the native dialect is active")
	}
	g.changed(!other)
	return again
}

// ask gives the probe a new generation and waits a moment for another controller to observe it. If a policy or a webhook of others refuses that, the present
// generation is enough, if no other controller has observed it although its status can be written: an active one observes every DaemonSet. Otherwise a webhook
// that is down would keep a new leader from creating the pods that the webhook itself may need.
func (g *Guard) ask(ctx context.Context) (other bool, err error) {
	probe, err := g.touch(ctx)
	if err != nil {
		if probe == nil || probe.Status.ObservedGeneration >= probe.Generation || !g.statusIsOpen(ctx, probe) {
			return false, err
		}
		klog.FromContext(ctx).Error(err, "The probe keeps its generation: waiting whether another controller observes it")
	}
	g.asked, g.uid = probe.Generation, probe.UID
	deadline := g.clock.Now().Add(answerWithin)
	for g.clock.Now().Before(deadline) {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-g.clock.After(200 * time.Millisecond):
		}
		if other, err := g.observed(ctx); err != nil || other {
			return other, err
		}
	}
	return false, nil
}

// observed reports whether another controller has observed the last generation.
func (g *Guard) observed(ctx context.Context) (bool, error) {
	probe, err := g.client.AppsV1().DaemonSets(g.namespace).Get(ctx, everynode.ProbeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil // the next ask creates it again
	}
	if err != nil {
		return false, fmt.Errorf("reading the probe %s/%s: %w", g.namespace, everynode.ProbeName, err)
	}
	return probe.Status.ObservedGeneration >= g.asked, nil
}

// touch raises the generation of the probe by changing a field that does not create a new revision. It creates the
// probe if necessary. If the probe exists and cannot be changed, it is returned as it is, with the error.
func (g *Guard) touch(ctx context.Context) (*appsv1.DaemonSet, error) {
	sets := g.client.AppsV1().DaemonSets(g.namespace)
	probe, err := sets.Get(ctx, everynode.ProbeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		probe, err = sets.Create(ctx, newProbe(g.namespace), metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("creating the probe %s/%s, without which the native dialect writes nothing: %w: exempt it from what refuses it", g.namespace, everynode.ProbeName, err)
		}
		return probe, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the probe %s/%s: %w", g.namespace, everynode.ProbeName, err)
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"minReadySeconds":%d}}`, probe.UID, (probe.Spec.MinReadySeconds+1)%1000)
	raised, err := sets.Patch(ctx, everynode.ProbeName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return probe, fmt.Errorf("giving the probe %s/%s a new generation: %w", g.namespace, everynode.ProbeName, err)
	}
	return raised, nil
}

// statusIsOpen reports whether the status of the probe can be written, so that another controller could report what it has observed. It writes nothing.
func (g *Guard) statusIsOpen(ctx context.Context, probe *appsv1.DaemonSet) bool {
	patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"observedGeneration":%d}}`, probe.UID, probe.Generation)
	_, err := g.client.AppsV1().DaemonSets(g.namespace).Patch(ctx, probe.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
	return err == nil
}

func (g *Guard) probe() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: g.namespace, Name: everynode.ProbeName, UID: g.uid}
}

// newProbe returns a DaemonSet that no node matches and whose image does not exist.
func newProbe(namespace string) *appsv1.DaemonSet {
	name := map[string]string{"app.kubernetes.io/name": everynode.ProbeName}
	yes, no := true, false
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: everynode.ProbeName, Labels: name, Annotations: map[string]string{
			"kubernetes.io/description": "Matches no node. Everynode sees from status.observedGeneration whether another controller reconciles DaemonSets.",
		}},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: name},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: name},
				Spec: corev1.PodSpec{
					NodeSelector:    map[string]string{"everynode.dev/probe": "matches-no-node"},
					SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
					Containers: []corev1.Container{{Name: "none", Image: "everynode.invalid/none", SecurityContext: &corev1.SecurityContext{
						AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					}}},
				},
			},
		},
	}
}
