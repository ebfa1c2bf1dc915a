// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
)

// A delete without an answer takes its slot of the budget, and holds nothing else: a node that joins gets its pod.
func TestAnUnclearDeleteHoldsItsPodOnly(t *testing.T) {
	w := newWorld(t, 4, nil)
	w.settle()
	w.edit("img:v2")
	w.forgetLog()
	timeout := apierrors.NewTimeoutError("etcd took too long", 1)
	w.before = func(verb, _ string) error {
		if verb == "delete" {
			return timeout
		}
		return nil
	}
	if err := w.pass(); err == nil {
		t.Fatal("an unclear delete has to fail the pass")
	}
	first := w.wrote("delete")
	w.join("joined")
	w.mustPass()
	if got := w.wrote("delete"); len(first) != 1 || !slices.Equal(got, first) {
		t.Fatalf("deletes %v, then %v: it may still take effect, and the budget is 1", first, got)
	}
	if got := w.wrote("create"); len(got) != 1 {
		t.Errorf("creates %v: the node that has joined needs a pod", got)
	}
	w.clock.Step(executor.Fence)
	w.before = nil
	w.settle()
	if got := w.status("updatedNumberScheduled"); got != 5 {
		t.Errorf("updated %d, want 5", got)
	}
}

// The node of a pod that cannot be deleted is tried again later and later, and the others are updated meanwhile.
func TestARefusedDeleteHoldsItsNodeOnly(t *testing.T) {
	for name, refusal := range refusals() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, nil)
			w.settle()
			w.edit("img:v2")
			w.forgetLog()
			protected := ""
			w.before = func(verb, name string) error {
				if verb == "delete" && (protected == "" || protected == name) {
					protected = name
					return refusal
				}
				return nil
			}
			w.settleBut(t, refusal)
			if got := w.status("updatedNumberScheduled"); got != 2 {
				t.Fatalf("updated %d, want all but the one that is protected", got)
			}
			if w.pods[protected] == nil || w.pods[protected].DeletionTimestamp != nil {
				t.Error("the pod whose delete was refused is gone")
			}
			if events := w.allEvents(); !strings.Contains(events, "Warning FailedDelete Error deleting: ") {
				t.Errorf("events:\n%s", events)
			}
			w.before = nil
			w.clock.Step(5 * time.Minute)
			w.settle()
			if got := w.status("updatedNumberScheduled"); got != 3 {
				t.Errorf("updated %d when nothing stands against it any more", got)
			}
		})
	}
}

// refusals are the ways in which admission says no.
func refusals() map[string]error {
	pods := schema.GroupResource{Resource: "pods"}
	webhook := func(code int32, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: code, Reason: reason, Message: `admission webhook "w" denied the request: no`,
		}}
	}
	return map[string]error{
		"a policy":                    apierrors.NewForbidden(pods, "x", errors.New("ValidatingAdmissionPolicy 'p' denied request")),
		"a webhook without a code":    webhook(http.StatusBadRequest, ""),
		"a webhook that is down":      apierrors.NewInternalError(errors.New(`failed calling webhook "w": connection refused`)),
		"a webhook with a bad patch":  apierrors.NewInternalError(errors.New("add operation does not apply: doc is missing path: \"/x/-\": missing value")),
		"a webhook with 401":          webhook(http.StatusUnauthorized, metav1.StatusReasonUnauthorized),
		"a webhook with 404":          webhook(http.StatusNotFound, metav1.StatusReasonNotFound),
		"a webhook with 409":          webhook(http.StatusConflict, metav1.StatusReasonConflict),
		"a webhook with 413":          webhook(http.StatusRequestEntityTooLarge, ""),
		"a webhook with 422":          webhook(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid),
		"a webhook with 429":          webhook(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests),
		"a webhook with 500":          webhook(http.StatusInternalServerError, metav1.StatusReasonInternalError),
		"a webhook with 504":          webhook(http.StatusGatewayTimeout, metav1.StatusReasonTimeout),
		"a conflict that is not ours": apierrors.NewConflict(pods, "x", errors.New("no")),
		"not found, and it is there":  apierrors.NewNotFound(pods, "x"),
	}
}

// settleBut is settle with passes of which each may fail for that reason.
func (w *world) settleBut(t *testing.T, reason error) {
	t.Helper()
	for range 20 {
		if err := w.pass(); err != nil && !errors.Is(err, reason) {
			t.Fatal(err)
		}
		w.kubelets()
		w.deliver()
		w.clock.Step(100 * time.Millisecond)
	}
}

// join adds a node.
func (w *world) join(name string) {
	w.index.PutNode(clustercache.Node{Name: name, RV: w.next(), Ready: true})
}
