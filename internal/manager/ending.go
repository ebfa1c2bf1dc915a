// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/api/everynode"
)

// How long a leader that is asked to stop looks at its Deployment, at most, and how often it looks again while it ends what is under way.
const (
	lookAtDeployment = 2 * time.Second
	lookAgain        = 2 * time.Second
)

// deployment is the Deployment of this manager. A nil one is not known.
type deployment struct {
	name   string
	client typedappsv1.DeploymentInterface
}

// newDeployment returns the Deployment that the options name.
func newDeployment(o *options, cfg *rest.Config) (*deployment, error) {
	if o.deployment == "" || o.endingTimeout <= 0 {
		return nil, nil
	}
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = lookAtDeployment
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &deployment{o.deployment, client.AppsV1().Deployments(o.namespace)}, nil
}

// down reports whether the Deployment wants no manager: it is scaled to zero, being deleted, or gone. It is not known if there is an error.
func (d *deployment) down(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lookAtDeployment)
	defer cancel()
	found, err := d.client.Get(ctx, d.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading the Deployment %s: %w", d.name, err)
	default:
		return wantsNone(found), nil
	}
}

func wantsNone(d *appsv1.Deployment) bool {
	return d.DeletionTimestamp != nil || d.Spec.Replicas != nil && *d.Spec.Replicas == 0
}

// end is called when the process is asked to stop. If this manager leads and no other will, it begins nothing new, puts pods back into service whose change is under
// way, and releases nodes that it holds, until that is done, its time has ended, or the Deployment wants managers again. In all other cases it returns at once, so that another manager takes over.
func (l *leader) end(ctx context.Context, d *deployment, limit time.Duration) {
	log := klog.FromContext(ctx)
	if d == nil || !l.working.Load() || !l.synced.Load() {
		return
	}
	switch down, err := d.down(ctx); {
	case err != nil:
		log.Info("Stopping at once: it is not known whether another manager takes over", "reason", err.Error())
		return
	case !down:
		return
	}
	log.Info("No other manager takes over: keeping the lease until what is under way has ended; a second signal stops this at once", "deployment", d.name, "atMost", limit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	go func() {
		for pause(ctx, lookAgain) == nil {
			if down, err := d.down(ctx); err == nil && !down {
				log.Info("The Deployment wants managers again: another one takes over", "deployment", d.name)
				cancel()
			}
		}
	}()
	var held []string
	var releasing sync.WaitGroup
	if l.holds != nil {
		releasing.Go(func() { held = l.holds.End(ctx) })
	}
	left := l.controller.End(ctx)
	releasing.Wait()
	for i := range left {
		log.Error(nil, "Stopping before this has ended; the next manager goes on with it", "left", left[i].String())
	}
	for _, node := range held {
		log.Error(nil, "Stopping before other pods may run on a node again; the next manager goes on with it", "node", node, "taint", everynode.HoldKey)
	}
	if len(left) == 0 && len(held) == 0 {
		log.Info("Nothing is under way any more that needs a manager")
	}
}

// outlive returns a context that ends after ctx has ended and end has returned, or when stop is called. What end gets then ends as well.
func outlive(ctx context.Context, end func(ctx context.Context)) (longer context.Context, stop context.CancelFunc) {
	longer, stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer stop()
		select {
		case <-ctx.Done():
			if longer.Err() == nil {
				end(longer)
			}
		case <-longer.Done():
		}
	}()
	return longer, stop
}
