// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/dialects"
)

// lookAtDefinitions is how often a manager checks whether the CRDs of a dialect were created or deleted.
const lookAtDefinitions = 10 * time.Second

// errAgain is the cause of an error after which the manager starts again, with the current CRDs and the current
// state of the cluster.
var errAgain = errors.New("beginning again")

// errDefinitions is such an error.
var errDefinitions = fmt.Errorf("CRDs have come, gone or changed hands: %w", errAgain)

// definitionWatch ends with errDefinitions when a CRD of the dialect of OpenKruise is created or deleted
// (also when it was deleted and created again between two checks), when its ownership changes between
// Everynode and others, and when CRDs become readable. None of these is a reason to stop the other dialects,
// or to wait for a user: what a manager serves does not depend on when it was started. It runs in every
// manager, whether it leads or not.
type definitionWatch struct {
	client dynamic.Interface // nil if the dialect was not requested
	known  definitions
	every  time.Duration
}

func newDefinitionWatch(o *options, cfg *rest.Config) (*definitionWatch, error) {
	w := &definitionWatch{known: o.definitions, every: lookAtDefinitions}
	if !slices.Contains(o.dialects, dialects.Kruise) && o.leftOut == nil {
		return w, nil
	}
	var err error
	if w.client, err = dynamic.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return w, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*definitionWatch) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (w *definitionWatch) Start(ctx context.Context) error {
	for w.client != nil && pause(ctx, w.every) == nil {
		now, err := readDefinitions(ctx, w.client)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Could not read the CRDs; trying again", "reason", err.Error())
			continue
		}
		if !w.known.same(now) {
			return fmt.Errorf("%w: missing were %q and not Everynode's %q, and now %q and %q (UIDs %v and %v)",
				errDefinitions, w.known.missing, w.known.foreign, now.missing, now.foreign, w.known.uids, now.uids)
		}
		w.known.uids = now.uids // also of one that could not be read at first
	}
	<-ctx.Done()
	return nil
}
