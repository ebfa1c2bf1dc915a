// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// writeTimeout bounds one write of the status.
const writeTimeout = 30 * time.Second

// write starts a write of the status if it has changed, and returns when to try again, if that is known.
func (l *loop) write(ctx context.Context, now time.Time) time.Time {
	if l.object == nil || l.writing {
		return time.Time{}
	}
	patch, err := patchOf(l.uid, &l.object.Status, statusOf(l.memory.States, &l.object.Status))
	switch {
	case err != nil:
		klog.ErrorS(err, "The status cannot be written")
		return time.Time{}
	case patch == nil:
		return time.Time{}
	case now.Before(l.writeAt):
		return l.writeAt
	case !l.pace.TryAccept():
		l.writeAt = now.Add(writeRetryInterval)
		return l.writeAt
	}
	w := statusWrite{events: l.final}
	l.writing, l.final = true, nil
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		w.object, w.err = l.store.PatchStatus(ctx, patch)
		select {
		case l.writes <- w:
		case <-l.done:
		}
	})
	return time.Time{}
}

// handleWrite handles the result of a write. Events are sent only for what is in the status.
func (l *loop) handleWrite(w statusWrite) {
	l.writing = false
	l.report.wrote(w.err)
	if w.err != nil {
		klog.ErrorS(w.err, "Writing the status")
		l.final = append(w.events, l.final...)
		l.writeAt = time.Now().Add(writeRetryInterval)
		return
	}
	if w.object.UID != l.uid {
		return
	}
	l.object = w.object
	for i := range w.events {
		s := &w.events[i]
		l.report.ended(l.object, s, l.specs[s.Key].owners)
	}
}

// newer returns the newer of two versions of an object. If they cannot be compared, it returns seen.
func newer(known, seen *v1beta1.NodeImage) *v1beta1.NodeImage {
	if known == nil || known.UID != seen.UID {
		return seen
	}
	if c, err := resourceversion.CompareResourceVersion(seen.ResourceVersion, known.ResourceVersion); err == nil && c < 0 {
		return known
	}
	return seen
}
