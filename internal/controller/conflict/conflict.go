// SPDX-License-Identifier: Apache-2.0

// Package conflict finds out whether somebody else reconciles the DaemonSets of apps/v1, so that two controllers never fight.
//
// A probe, a DaemonSet in Everynode's own namespace that matches no node and that our own controller never looks at, gets a
// new generation now and then; whoever writes that number to its status.observedGeneration is another controller at work.
// The native dialect may write only while nobody does.
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

// ReasonConflict tells that another controller reconciles the DaemonSets of apps/v1, so that the native dialect writes nothing.
const ReasonConflict = "ConflictingController"

// Intervals of the check. A controller that is at rest answers the probe within milliseconds; one that is very busy is
// still found by a later look at the same generation.
const (
	answerWithin = 3 * time.Second
	lookEvery    = 10 * time.Second
	askEvery     = 10 * time.Minute
	askAgain     = 30 * time.Second // while there is a conflict
)

// Message tells what is wrong and how to mend it.
const Message = "another controller reconciles the DaemonSets of apps/v1, so the native dialect writes nothing: " +
	"either start kube-controller-manager with --controllers=*,-daemonset, or leave native out of --dialects of everynode-manager"

// Guard watches the probe. Make one with New.
type Guard struct {
	client    kubernetes.Interface
	namespace string
	events    record.EventRecorder
	clock     clock.WithTicker
	// changed is called when the answer of MayWrite has changed.
	changed func(mayWrite bool)

	permit permit
	// asked is the generation that nobody else should observe.
	asked int64
	uid   types.UID
}

// Options are the parts of a Guard; all are required.
type Options struct {
	Client    kubernetes.Interface
	Namespace string
	Events    record.EventRecorder
	Clock     clock.WithTicker
	// Settle is called before MayWrite is true again.
	Settle Settle
	// Changed is called from Run when the answer of MayWrite has changed.
	Changed func(mayWrite bool)
}

// New returns a Guard that does not let anybody write until Run has asked for the first time.
func New(o Options) *Guard {
	return &Guard{client: o.Client, namespace: o.Namespace, events: o.Events, clock: o.Clock, changed: o.Changed, permit: permit{settle: o.Settle}}
}

// MayWrite is whether nobody else was seen at work.
func (g *Guard) MayWrite() bool { return g.permit.may.Load() }

// Run asks at once and then at intervals until ctx ends.
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
			other, err = g.look(ctx)
		}
		if err == nil {
			again = g.decide(ctx, other)
		} else if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Could not find out whether another controller reconciles DaemonSets; trying again")
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

// decide takes what was found out, and says whether to find out again at once.
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
		klog.FromContext(ctx).Info("No other controller reconciles the DaemonSets of apps/v1; the native dialect is at work")
	}
	g.changed(!other)
	return again
}

// ask gives the probe a new generation and waits a moment for somebody to observe it.
func (g *Guard) ask(ctx context.Context) (other bool, err error) {
	probe, err := g.touch(ctx)
	if err != nil {
		return false, err
	}
	g.asked, g.uid = probe.Generation, probe.UID
	deadline := g.clock.Now().Add(answerWithin)
	for g.clock.Now().Before(deadline) {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-g.clock.After(200 * time.Millisecond):
		}
		if other, err := g.look(ctx); err != nil || other {
			return other, err
		}
	}
	return false, nil
}

// look is whether somebody has observed the generation that was asked for last.
func (g *Guard) look(ctx context.Context) (bool, error) {
	probe, err := g.client.AppsV1().DaemonSets(g.namespace).Get(ctx, everynode.ProbeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil // the next ask makes it anew
	}
	if err != nil {
		return false, fmt.Errorf("reading the probe %s/%s: %w", g.namespace, everynode.ProbeName, err)
	}
	return probe.Status.ObservedGeneration >= g.asked, nil
}

// touch raises the generation of the probe by changing a field that leads to no new revision; it creates the probe if needed.
func (g *Guard) touch(ctx context.Context) (*appsv1.DaemonSet, error) {
	sets := g.client.AppsV1().DaemonSets(g.namespace)
	probe, err := sets.Get(ctx, everynode.ProbeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		probe, err = sets.Create(ctx, newProbe(g.namespace), metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("creating the probe %s/%s: %w", g.namespace, everynode.ProbeName, err)
		}
		return probe, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the probe %s/%s: %w", g.namespace, everynode.ProbeName, err)
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"minReadySeconds":%d}}`, probe.UID, (probe.Spec.MinReadySeconds+1)%1000)
	probe, err = sets.Patch(ctx, everynode.ProbeName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("giving the probe %s/%s a new generation: %w", g.namespace, everynode.ProbeName, err)
	}
	return probe, nil
}

func (g *Guard) probe() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: g.namespace, Name: everynode.ProbeName, UID: g.uid}
}

// newProbe is a DaemonSet that no node matches and whose image does not exist.
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
