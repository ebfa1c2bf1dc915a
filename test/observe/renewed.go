// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// renewal watches a kind whose old versions the API server may forget at any time: whenever its
// CustomResourceDefinition is written, as a new leader does to publish its webhooks, the watches of its objects end and
// cannot be continued.
//
// Then the objects are listed again. Lost versions of a status make the checks less strict; a lost version of a
// specification is an error, which the generation shows.
type renewal struct {
	*Recorder
	source      source
	from        string
	generations map[types.UID]int64
}

// pauseBetween is the pause between attempts while the API server rejects watches.
const pauseBetween = 100 * time.Millisecond

// followRenewed reads watches until the context ends.
func (r *Recorder) followRenewed(ctx context.Context, s source, from string) {
	n := &renewal{Recorder: r, source: s, from: from, generations: map[types.UID]int64{}}
	for _, event := range r.Log() {
		if s.holds(event.Object) {
			n.generations[event.Object.GetUID()] = event.Object.GetGeneration()
		}
	}
	for ctx.Err() == nil {
		err := n.watch(ctx)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			err = n.list(ctx)
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(pauseBetween): // the CRD is being written
			}
		}
	}
}

// watch records the events of one watch until it ends.
func (n *renewal) watch(ctx context.Context) error {
	watcher, err := n.source.watch(ctx, metav1.ListOptions{ResourceVersion: n.from})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, open := <-watcher.ResultChan():
			if !open {
				return nil
			}
			if err := n.see(event); err != nil {
				return err
			}
		}
	}
}

func (n *renewal) see(event watch.Event) error {
	object, isObject := event.Object.(metav1.Object)
	if !isObject || event.Type == watch.Error {
		return apierrors.FromObject(event.Object)
	}
	object, err := n.source.read(object)
	if err != nil {
		n.fail(err)
		return err
	}
	n.take(event.Type, object)
	return nil
}

// list records the objects that have changed since the last event.
func (n *renewal) list(ctx context.Context) error {
	version, objects, err := n.source.list(ctx)
	if err != nil {
		return err
	}
	known := n.versions()
	for _, object := range objects {
		if known[object.GetUID()] != object.GetResourceVersion() {
			n.take(watch.Modified, object)
		}
	}
	n.from = version
	return nil
}

// versions returns the last recorded versions of the objects.
func (n *renewal) versions() map[types.UID]string {
	versions := map[types.UID]string{}
	for _, event := range n.Log() {
		if n.source.holds(event.Object) {
			versions[event.Object.GetUID()] = event.Object.GetResourceVersion()
		}
	}
	return versions
}

func (n *renewal) take(kind watch.EventType, object metav1.Object) {
	before, known := n.generations[object.GetUID()]
	if now := object.GetGeneration(); known && now > before+1 {
		n.fail(fmt.Errorf("the versions of %s %s between generation %d and %d are lost", n.source.name, object.GetName(), before, now))
	}
	n.generations[object.GetUID()] = object.GetGeneration()
	event, err := NewEvent(kind, object, time.Now())
	if err != nil {
		n.fail(err)
		return
	}
	n.from = object.GetResourceVersion()
	n.mu.Lock()
	n.log = append(n.log, event)
	n.mu.Unlock()
}
