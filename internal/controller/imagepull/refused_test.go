// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// A node whose NodeImage cannot be changed, for whatever its agent has written there, holds up nobody else, and is named.
func TestANodeThatRefusesPullsBlocksNoOther(t *testing.T) {
	for _, parallelism := range []int{1, 2} {
		job := newJob("default", "pull", parallelism)
		w := newWorld(t, append(append(node("a"), node("b")...), job)...)
		w.patchErr = func(name string) (error, bool) {
			if name == "a" {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "NodeImage"}, name, nil), false
			}
			return nil, false
		}
		for range 5 {
			_, err := w.pass(job)
			if parallelism == 2 && err == nil {
				t.Error("what was refused is not tried again with a growing delay")
			}
		}
		w.report("b", v1beta1.ImagePhaseSucceeded)
		for range 3 {
			_, _ = w.pass(job)
			w.clock.Step(statusInterval)
		}
		s := read(w, job).Status
		if !w.c.Refused(job.UID, "a") || w.c.Refused(job.UID, "b") || w.c.Refused("another", "a") {
			t.Error("it is not known who was refused")
		}
		if s.Succeeded != 1 || s.Active != 0 || !strings.Contains(s.Message, "the node image of a cannot be changed: ") {
			t.Errorf("parallelism %d: %+v", parallelism, s)
		}
		w.patchErr = nil
		_, _ = w.pass(job)
		w.report("a", v1beta1.ImagePhaseSucceeded)
		for range 3 {
			_, _ = w.pass(job)
			w.clock.Step(statusInterval)
		}
		if s := read(w, job).Status; s.Succeeded != 2 {
			t.Errorf("parallelism %d, when it can be told again: %+v", parallelism, s)
		}
	}
}

// Nor does one for which admission says no with any code, or is not there, or from which no clear answer comes.
func TestANodeThatRefusesPullsBlocksNoOtherWhateverTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		refused bool
	}{
		"a webhook that is down": {apierrors.NewInternalError(errors.New(`failed calling webhook "w": connection refused`)), true},
		"a policy with the reason Unauthorized": {&apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized, Message: "ValidatingAdmissionPolicy 'p' denied request",
		}}, true},
		"a webhook with 409": {&apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: `admission webhook "w" denied the request: no`,
		}}, true},
		"a webhook with 418": {&apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusTeapot, Message: `admission webhook "w" denied the request: no`,
		}}, true},
		"a webhook that does not answer": {apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob("default", "pull", 1)
			w := newWorld(t, append(append(node("a"), node("b")...), job)...)
			w.patchErr = func(name string) (error, bool) {
				if name == "a" {
					return c.err, false
				}
				return nil, false
			}
			for range 5 {
				_, _ = w.pass(job)
			}
			if w.begun() != 1 {
				t.Error("the other node is not told to pull anything, because the first one cannot be told")
			}
			w.report("b", v1beta1.ImagePhaseSucceeded)
			for range 10 {
				_, _ = w.pass(job)
				w.clock.Step(statusInterval)
			}
			if s := read(w, job).Status; s.Succeeded != 1 || s.Message == "" {
				t.Errorf("the status says %+v", s)
			}
			if got := w.c.Refused(job.UID, "a"); got != c.refused {
				t.Errorf("refused: %v, want %v", got, c.refused)
			}
		})
	}
}

// A status that a webhook refuses with the code of a conflict is written again with a growing delay, and not ten times a second.
func TestAStatusThatIsRefusedAsAConflict(t *testing.T) {
	job := newJob("default", "pull", 1)
	w := newWorld(t, append(node("a"), job)...)
	for code, reason := range map[int32]metav1.StatusReason{http.StatusConflict: metav1.StatusReasonConflict, http.StatusNotFound: metav1.StatusReasonNotFound} {
		w.statusErr = &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: code, Reason: reason, Message: `admission webhook "w" denied the request: no`,
		}}
		if _, err := w.pass(job); err == nil {
			t.Errorf("code %d: the pass is repeated at once, and for ever", code)
		}
	}
}
