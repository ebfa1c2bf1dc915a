// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/localplane"
)

// Restored opens the ledger of a store that was restored from a copy of an earlier moment of this ledger. Its log begins with what this one has up to that moment,
// and continues with what happens after the restore, so it can be judged as a whole. What happened between the copy and the restore is only in
// this ledger. Nothing may be written to the store before this returns: start etcd first, and the API server after that.
func (l *Ledger) Restored(ctx context.Context, store localplane.Store) (*Ledger, error) {
	client, err := dial(store)
	if err != nil {
		return nil, err
	}
	next := &Ledger{namespace: l.namespace, client: client, ended: make(chan struct{}), last: map[string]metav1.Object{}}
	if err := next.begin(ctx); err != nil {
		return nil, fmt.Errorf("reading the restored store of the plane: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	stored := map[types.UID]string{}
	for _, object := range next.last {
		stored[object.GetUID()] = object.GetResourceVersion()
	}
	if next.log, err = upTo(l.log, next.from, stored); err != nil {
		return nil, err
	}
	next.from, next.excused = l.from, maps.Clone(l.excused)
	ctx, next.cancel = context.WithCancel(ctx)
	go next.follow(ctx)
	return next, nil
}

// upTo is the part of a log up to a version. It fails unless it adds up to what is stored at that version.
func upTo(log []Event, version uint64, stored map[types.UID]string) ([]Event, error) {
	var part []Event
	state := map[types.UID]string{}
	for _, event := range log {
		if event.Version > version {
			break
		}
		part = append(part, event)
		if event.Type == watch.Deleted {
			delete(state, event.Object.GetUID())
			continue
		}
		state[event.Object.GetUID()] = event.Object.GetResourceVersion()
	}
	if len(part) == len(log) {
		return nil, errors.New("nothing is in the ledger that the restored store does not have, so no moment was lost")
	}
	if !maps.Equal(state, stored) {
		return nil, fmt.Errorf("the store was not restored from a copy of this ledger: at version %d it has %v, and the ledger %v", version, stored, state)
	}
	return part, nil
}
