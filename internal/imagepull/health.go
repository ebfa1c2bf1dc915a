// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// The conditions of a job, as in kstatus; one of them alone is True.
const (
	ConditionReady       = "Ready"       // every node that the job selects has the image, or the job is paused (parallelism: 0)
	ConditionReconciling = "Reconciling" // nodes pull the image, or wait for their turn
	ConditionStalled     = "Stalled"     // the job cannot run, or a node has failed and none is left to pull; unknown while the job waits for its pull secrets, at first
)

// The reasons of conditions of a job.
const (
	ReasonInvalid  = "InvalidSpec" // Stalled: the job cannot run, because its image or its selector cannot be read
	ReasonComplete = "Complete"    // Ready: every node that the job selects has the image
	ReasonPaused   = "Paused"      // Ready: parallelism is 0, so no further node begins, as requested
	ReasonReleased = "NotReleased" // Ready: every node that the rollout has released has the image
	ReasonPulling  = "Pulling"     // Reconciling: nodes pull the image, or wait for their turn
	ReasonHeld     = "Held"        // Reconciling, and Stalled after ten minutes: no node may begin, because the pull secrets of the job cannot be passed on
	ReasonFailed   = "PullsFailed" // Stalled: a node has failed, and none is left to pull
)

// stallAfter is how long a job waits for its pull secrets before it is stalled: a permission may be given moments after the job, but does not come by itself.
const stallAfter = 10 * time.Minute

// judge sets the conditions of a status. Their message is composed of the numbers and the message of the status, so that they cause no additional writes.
func judge(status *v1beta1.ImagePullJobStatus, job *v1beta1.ImagePullJob, h health, now time.Time) {
	message := status.Message
	if h.reason != ReasonInvalid {
		message = fmt.Sprintf("%d of %d nodes have the image, and %d have failed", status.Succeeded, status.Desired, status.Failed)
		if status.Message != "" {
			message += "; " + status.Message
		}
	}
	status.ObservedGeneration = job.Generation
	status.Conditions = slices.Clone(job.Status.Conditions)
	for _, k := range []string{ConditionReady, ConditionReconciling, ConditionStalled} {
		c := metav1.Condition{
			Type: k, Status: metav1.ConditionFalse, Reason: h.reason, ObservedGeneration: job.Generation,
			LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
		}
		switch {
		case k == h.kind:
			c.Status = metav1.ConditionTrue
		case k == ConditionStalled && h.reason == ReasonHeld:
			c.Status = metav1.ConditionUnknown // the ten minutes count from then
		}
		if k == h.kind || k == ConditionReady {
			c.Message = message
		}
		meta.SetStatusCondition(&status.Conditions, c)
	}
}

// health is which condition of a job is True, and its reason.
type health struct{ kind, reason string }

// health returns the health of a job that can run.
func (d *decision) health() health {
	held := len(d.active) == 0 && !slices.ContainsFunc(d.waiting, func(n *Node) bool { return !d.in.Held[n.Name] })
	switch left := len(d.active) + len(d.waiting); {
	case (left == 0 || held) && len(d.failed) > 0:
		return health{ConditionStalled, ReasonFailed}
	case left == 0:
		return health{ConditionReady, ReasonComplete}
	case len(d.active) == 0 && d.parallelism() <= 0:
		return health{ConditionReady, ReasonPaused}
	case held:
		return health{ConditionReady, ReasonReleased}
	case len(d.active) == 0 && d.in.Hold != "":
		return health{d.heldAs(), ReasonHeld}
	default:
		return health{ConditionReconciling, ReasonPulling}
	}
}

// heldAs is which condition is True of a job that waits for its pull secrets.
func (d *decision) heldAs() string {
	c := meta.FindStatusCondition(d.in.Job.Status.Conditions, ConditionStalled)
	if c == nil || c.Reason != ReasonHeld || c.Status == metav1.ConditionFalse || c.Status == metav1.ConditionUnknown && d.in.Now.Sub(c.LastTransitionTime.Time) < stallAfter {
		return ConditionReconciling
	}
	return ConditionStalled
}

// ended returns the health of a job that has ended, from its numbers. OpenKruise does not count a node as failed that was pulling at the deadline.
func ended(status *v1beta1.ImagePullJobStatus) health {
	if status.Failed > 0 || status.Succeeded < status.Desired {
		return health{ConditionStalled, ReasonFailed}
	}
	return health{ConditionReady, ReasonComplete}
}
