// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// passesFor runs passes for that long, each a second after the one before, whatever they return, and shows the index no list.
func (w *world) passesFor(d time.Duration) (last error) {
	for range int(d / time.Second) {
		last = w.pass()
		w.kubelets()
		w.clock.Step(time.Second)
	}
	return last
}

// keepsNoHistory is a world of one node whose set keeps no old revision.
func keepsNoHistory(t *testing.T) *world {
	none := int32(0)
	return newWorld(t, 1, func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = &none })
}

// rollsBack goes back to the first image and fails the test if no pod follows.
func (w *world) rollsBack() {
	w.t.Helper()
	w.edit("img:v1")
	last := w.passesFor(20 * time.Second)
	for _, p := range w.pods {
		if image := p.Spec.Containers[0].Image; image != "img:v1" {
			w.t.Errorf("the pod has image %s after a rollback; the last error: %v", image, last)
		}
	}
}

// An old revision is deleted and a finalizer keeps it: it is deleted once, and the set can go back to it.
func TestAnOldRevisionThatAFinalizerKeeps(t *testing.T) {
	w := keepsNoHistory(t)
	w.settle()
	w.currentRevision().Finalizers = []string{"example.org/backup"}
	w.edit("img:v2")
	_ = w.passesFor(20 * time.Second)
	if deleted := w.wrote("delete-revision"); len(deleted) != 1 {
		t.Errorf("the old revision was deleted %d times, want once", len(deleted))
	}
	w.rollsBack()
}

// denial is how a webhook denies with a code.
func denial(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: `admission webhook "keep.example.org" denied the request: it stays`,
	}}
}

// A webhook denies the delete of old revisions with any code: the pass fails with its words, and the set can go back to them.
func TestAWebhookDeniesTheDeleteOfARevision(t *testing.T) {
	for code, reason := range map[int32]metav1.StatusReason{403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			w := keepsNoHistory(t)
			w.before = func(verb, _ string) error {
				if verb == "delete-revision" {
					return denial(code, reason)
				}
				return nil
			}
			w.settle()
			w.edit("img:v2")
			if err := w.passesFor(20 * time.Second); err == nil || !strings.Contains(err.Error(), "it stays") {
				t.Errorf("error %v, want what the webhook said", err)
			}
			w.rollsBack()
		})
	}
}
