// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/kwok/pkg/config/resources"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/informer"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"

	"everynode.dev/everynode/localplane/simkubelet"
)

const (
	// holder does not change after a restart, so that existing leases are renewed.
	holder            = "localplane"
	leaseWorkers      = 16
	nodeStageWorkers  = 16
	nodeEventsPending = 256
	// A lease is renewed after a sixth to a third of its duration, a quarter on average, as a kubelet does. All nodes of
	// a plane are created within a few seconds; without this jitter, all would renew their leases at the same time,
	// which would disturb measurements.
	renewalsPerLease = 6
	leaseJitter      = 1
)

// startNodes starts kwok's controllers for nodes and their leases. kwok's own command would also start its pod
// controller, and hold leases under a name that changes at every start.
func startNodes(ctx context.Context, client kubernetes.Interface, lease time.Duration) error {
	ctx = kwoklog.NewContext(ctx, kwoklog.NewLogger(os.Stderr, kwoklog.LevelWarn))
	nodes := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = simkubelet.ConnectedLabel + "=true"
	})).Core().V1().Nodes().Informer()
	leases := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(v1.NamespaceNodeLease)).
		Coordination().V1().Leases().Informer()

	events := make(chan informer.Event[*v1.Node], nodeEventsPending)
	if err := forwardNodes(ctx, nodes, events); err != nil {
		return err
	}
	leaseController, nodeController, err := newNodeControllers(client, nodes, leases, lease)
	if err != nil {
		return err
	}
	// The leases are read first: creating a lease that already exists fails, and is retried much later.
	go leases.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), leases.HasSynced) {
		return fmt.Errorf("listing leases: %w", context.Cause(ctx))
	}
	err = errors.Join(leaseController.Start(ctx), nodeController.Start(ctx, events))
	if err != nil {
		return fmt.Errorf("starting kwok: %w", err)
	}
	go nodes.RunWithContext(ctx)
	return nil
}

func newNodeControllers(client kubernetes.Interface, nodes, leases cache.SharedInformer, lease time.Duration) (*controllers.NodeLeaseController, *controllers.NodeController, error) {
	stages, err := lifecycle.NewLifecycle(nodeStages())
	if err != nil {
		return nil, nil, fmt.Errorf("preparing kwok's stages: %w", err)
	}
	var nodeController *controllers.NodeController
	leaseController, err := controllers.NewNodeLeaseController(controllers.NodeLeaseControllerConfig{
		Clock:                clock.RealClock{},
		HolderIdentity:       holder,
		TypedClient:          client,
		LeaseDurationSeconds: uint(lease.Round(time.Second) / time.Second),
		LeaseParallelism:     leaseWorkers,
		GetLease: func(name string) (*coordinationv1.Lease, bool) {
			return lookUp[*coordinationv1.Lease](leases.GetStore(), v1.NamespaceNodeLease+"/"+name)
		},
		RenewInterval:       lease / renewalsPerLease,
		RenewIntervalJitter: leaseJitter,
		MutateLeaseFunc:     func(l *coordinationv1.Lease) error { ownLease(l, nodes.GetStore()); return nil },
		OnNodeManagedFunc: func(name string) {
			if node, ok := lookUp[*v1.Node](nodes.GetStore(), name); ok {
				nodeController.ManageNode(node)
			}
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("preparing kwok's leases: %w", err)
	}
	nodeController, err = controllers.NewNodeController(controllers.NodeControllerConfig{
		Clock:                clock.RealClock{},
		TypedClient:          client,
		Lifecycle:            resources.NewStaticGetter(stages),
		PlayStageParallelism: nodeStageWorkers,
		OnNodeManagedFunc:    leaseController.TryHold,
		OnNodeUnmanagedFunc:  leaseController.ReleaseHold,
		ReadOnlyFunc:         func(name string) bool { return !leaseController.Held(name) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("preparing kwok's nodes: %w", err)
	}
	return leaseController, nodeController, nil
}

// forwardNodes converts an informer's calls to the events that kwok reads.
func forwardNodes(ctx context.Context, nodes cache.SharedInformer, events chan<- informer.Event[*v1.Node]) error {
	send := func(kind informer.EventType, obj any) {
		if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		if node, ok := obj.(*v1.Node); ok {
			select {
			case events <- informer.Event[*v1.Node]{Type: kind, Object: node}:
			case <-ctx.Done():
			}
		}
	}
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { send(informer.Added, obj) },
		UpdateFunc: func(_, obj any) { send(informer.Modified, obj) },
		DeleteFunc: func(obj any) { send(informer.Deleted, obj) },
	})
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	return nil
}

// ownLease makes the node the owner of the lease, so that the lease is deleted with the node.
func ownLease(lease *coordinationv1.Lease, nodes cache.Store) {
	node, ok := lookUp[*v1.Node](nodes, lease.Name)
	if !ok || len(lease.OwnerReferences) > 0 {
		return
	}
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
}

func lookUp[T any](store cache.Store, key string) (T, bool) {
	var none T
	obj, exists, err := store.GetByKey(key)
	if err != nil || !exists {
		return none, false
	}
	found, ok := obj.(T)
	return found, ok
}
