// SPDX-License-Identifier: Apache-2.0

// Package apply holds the pure rules of carrying out a Plan: in which batches pods are created, what the answer of the API
// server to a write means, and whether a pod that already has the wanted name is the one that was wanted. The executor,
// which writes, is in the package below it.
//
// Vocabulary: an answer is definite when it says whether the write took effect; a time-out or a broken connection is not.
// The rule is that what is not known about one pod holds that pod and never its set: a pod whose delete has no definite answer counts as
// terminating, nothing is created on a node while a create for it has none, and no pod is edited while an edit of it has none. If the write took no effect, the node
// is tried again after all others, like one whose write was refused. A create that is sent
// twice does no harm, because the name of a pod is derived from set, node and revision, and the second one is answered
// AlreadyExists; but the revision may change in between.
package apply

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/clustercache"
)

// Answer is what the API server's answer to a write means.
type Answer uint8

// The answers.
const (
	Done    Answer = iota + 1 // the write took effect
	Exists                    // a create found an object of that name
	Gone                      // a delete found no such object
	Differs                   // a precondition does not hold, or a proxy or webhook answered as if it did not
	Ended                     // the namespace is being deleted: no create can succeed any more
	Refused                   // the write was denied, and did not take effect
	Busy                      // the server has no room for it now, or it was not sent at all; the write did not take effect
	Unclear                   // it is unknown whether the write took effect
)

// String is the value of the metric label "result".
func (a Answer) String() string {
	return [...]string{"", "done", "exists", "gone", "differs", "ended", "refused", "busy", "unclear"}[a]
}

// ErrNotLeading is the error of a request that was not sent, because another manager may have become the leader.
var ErrNotLeading = errors.New("not sent: the lease of the leader was not renewed in time")

// OfCreate reads the answer to a create.
func OfCreate(err error) Answer {
	switch {
	case err == nil:
		return Done
	case denied(err):
		return Refused
	case apierrors.IsAlreadyExists(err):
		return Exists
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return Ended
	default:
		return refusal(err)
	}
}

// OfDelete reads the answer to a delete, or a patch, that carried the UID as precondition. Differs need not mean that the object is another one
// now: a webhook or a proxy may refuse with any code.
func OfDelete(err error) Answer {
	switch {
	case err == nil:
		return Done
	case denied(err):
		return Refused
	case apierrors.IsNotFound(err):
		return Gone
	case apierrors.IsConflict(err):
		return Differs
	default:
		return refusal(err)
	}
}

// refusal distinguishes a definite refusal from an unclear answer. A definite refusal is an answer of the API
// server itself with a code below 500, including 429 (the request was not started); after 408 and 504, the
// outcome is unclear.
func refusal(err error) Answer {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		if IsBusy(err) {
			return Busy
		}
		if code >= 400 && code < 500 && code != http.StatusRequestTimeout {
			return Refused
		}
		return Unclear
	}
	if errors.Is(err, ErrNotLeading) {
		return Busy
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return Busy // the connection was never made
	}
	return Unclear
}

// Denied reports whether err says no to an object for what it is. A webhook that the API server cannot call says nothing about it, and neither does an answer that is not clear.
func Denied(err error) bool {
	uncalled := denied(err) && uncalledWebhook.MatchString(err.Error())
	return OfCreate(err) == Refused && !uncalled
}

// NoDryRun reports whether err says that a write cannot be tried, because a webhook has effects of its own.
func NoDryRun(err error) bool {
	return apierrors.IsBadRequest(err) && strings.HasSuffix(err.Error(), " does not support dry run")
}

// BeyondLimits reports whether err denies an object because a ResourceQuota or a LimitRange of its namespace does not allow so much. A webhook or a policy that says the same does
// not count. What a pod may not become may no other pod be either.
func BeyondLimits(err error) bool {
	why := forbids(err)
	return strings.HasPrefix(why, "exceeded quota: ") || limitRange.MatchString(why)
}

// limitRange matches the answers about a LimitRange; with several, there are brackets around them (plugin/pkg/admission/limitranger).
var limitRange = regexp.MustCompile(`^\[?((minimum|maximum) \S+ usage per|\S+ max limit to request ratio per) (Pod|Container) is `)

// QuotaUsedUp reports whether err denies an object because a ResourceQuota has no room for it. A webhook or a policy that says the same does not count.
func QuotaUsedUp(err error) bool { return strings.HasPrefix(forbids(err), "exceeded quota: ") }

// forbids is why the API server itself forbids a write; empty if that is not its answer.
func forbids(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonForbidden || denied(err) {
		return ""
	}
	_, why, _ := strings.Cut(status.Status().Message, " is forbidden: ")
	return why
}

// uncalledWebhook matches the answers about webhooks that did not answer, or panicked (failedAdmission).
var uncalledWebhook = regexp.MustCompile(`Internal error occurred: (failed calling webhook |ValidatingAdmissionWebhook/.* has panicked)`)

// denied reports whether err is an answer of admission, so that nothing was written. A webhook denies with any code, also with one by which the
// API server itself reports that it has no room or does not know. A webhook that the API server cannot call, or whose patch it cannot apply, is an
// internal error.
func denied(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	text, internal := strings.CutPrefix(s.Message, "Internal error occurred: ")
	return strings.HasPrefix(s.Message, "admission webhook ") || internal && s.Reason == metav1.StatusReasonInternalError && failedAdmission.MatchString(text)
}

// failedAdmission matches the internal errors of admission (k8s.io/apiserver, plugin/webhook): a webhook that does not answer, one that patches what
// cannot be patched (the object of a DELETE), one that panics in the API server, a patch that does not apply (gopkg.in/evanphx/json-patch.v4), and a
// patch after which the object is not a pod.
var failedAdmission = regexp.MustCompile(`^(failed calling webhook |admission webhook |ValidatingAdmissionWebhook/.* has panicked` +
	`|(jsonpatch )?(add|remove|replace|move|copy|test) operation |error in (add|remove|replace|move|copy|test) for ` +
	`|testing value .* failed|error while (performing deep copy|adding value during copy)|json: cannot unmarshal )`)

// TimedOut reports whether a write timed out, in the API server or on the way to it.
func TimedOut(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return !denied(err) && (code == http.StatusGatewayTimeout || code == http.StatusRequestTimeout)
	}
	var late net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) && late.Timeout()
}

// SlowStart gives the sizes of the batches in which pods are created: 1, 2, 4 … until all creates of a batch were refused, or one had no clear answer.
// So a quota or a webhook that refuses every pod is asked once or twice in a pass and not hundreds of times (as upstream). The successful creates
// determine the first batch of the next creates of the same kind: a busy server does not answer a small batch faster than a large one.
type SlowStart struct {
	size, left int
	// before is what size was before the last batch.
	before int
}

// NewSlowStart is for n creates, and begins with a batch of first, at least 1.
func NewSlowStart(n, first int) *SlowStart { return &SlowStart{size: max(first, 1), left: n} }

// Next returns the size of the next batch, at most most creates; 0 when all creates are done.
func (s *SlowStart) Next(most int) int {
	n := min(s.size, s.left, most)
	s.left -= n
	s.before = s.size
	if n == s.size {
		s.size *= 2 // a smaller batch shows nothing about a larger one
	}
	return n
}

// Size is the size of the next batch if there are enough creates. The next creates of the same kind may begin with it.
func (s *SlowStart) Size() int { return s.size }

// Fail ends the batches, and the next ones begin small again; it returns how many creates are left out.
func (s *SlowStart) Fail() int {
	skipped := s.left
	s.left, s.size = 0, 1
	return skipped
}

// Refuse records a batch in which some creates were refused, for reasons that may not apply to the others. If
// some creates succeeded, the next batch has the same size. If none succeeded, the batches end, and the next
// pass begins with twice as many creates: so refusals of some nodes delay the others by a few passes at most.
// It returns how many creates are left out.
func (s *SlowStart) Refuse(refused, sent int) int {
	if refused < sent {
		s.size = s.before
		return 0
	}
	skipped := s.left
	s.left, s.size = 0, min(2*s.before, maxRefused)
	return skipped
}

// maxRefused is how many creates are sent at once when all before were refused.
const maxRefused = 32

// Stop ends the batches although nothing has failed. The last batch was not sent completely, so it proves nothing: the next pass begins with its size.
func (s *SlowStart) Stop() { s.left, s.size = 0, s.before }

// Wanted is the pod that a create was for.
type Wanted struct {
	Owner types.UID
	// Advanced is clustercache.Pod.Advanced: a pod can name the UID of the set and another group.
	Advanced bool
	Node     string
	Hash     string
}

// Check reports whether the pod that was found under the name of the wanted one can be taken for it. If not, the error says in
// what it differs; stale is true when it is a terminating pod of the same set, for which the caller only needs to wait.
func (w Wanted) Check(p clustercache.Pod) (stale bool, err error) {
	switch {
	case p.Owner != w.Owner || p.Advanced != w.Advanced:
		return false, fmt.Errorf("the pod name %s is taken by a pod that this daemon set does not control", p.Name)
	case p.Node != w.Node:
		return false, fmt.Errorf("the pod name %s is taken by a pod of node %s", p.Name, p.Node)
	case p.Hash != w.Hash:
		return false, fmt.Errorf("the pod name %s is taken by a pod of revision %s", p.Name, p.Hash)
	case p.Deleting:
		return true, fmt.Errorf("the pod name %s is taken by a pod that is terminating", p.Name)
	default:
		return false, nil
	}
}
