// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"time"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// Snapshot is everything that Decide looks at: one job and the cluster, at one moment. Nothing of it is changed.
type Snapshot struct {
	Now time.Time
	Job *v1beta1.ImagePullJob
	// Nodes are all nodes of the cluster, sorted by name.
	Nodes []Node
	// PodNodes are the nodes on which a pod runs that the podSelector of the job matches. It is not looked at without one.
	PodNodes map[string]bool
	// Order are names of nodes that are begun before all others, in this order.
	Order []string
	// Held are nodes that do not begin yet, because the rollout that the job is for holds them back. Where they have begun, they continue.
	Held map[string]bool
	// Secrets are where the agents find the pull secrets of the job.
	Secrets []v1beta1.ReferenceObject
	// Refused contains, for each node, why the API server refused the last change of its NodeImage, or gave no clear answer to it.
	Refused map[string]string
	// Hold, if not empty, says why no further node may begin. Secrets are not looked at then.
	Hold string
}

// Node is one node.
type Node struct {
	Name   string
	Labels map[string]string
	Ready  bool
	// Image is its NodeImage; nil while there is none.
	Image *v1beta1.NodeImage
}

// Plan is what is to be done about one job.
type Plan struct {
	// Edits change NodeImages, each at most once.
	Edits []Edit
	// Status is the status of the job once the edits are made.
	Status v1beta1.ImagePullJobStatus
	// Delete reports whether the job has been kept for long enough.
	Delete bool
	// More reports whether to decide again at once: there was more to do than one plan holds.
	More bool
	// Wake is when to decide again even if nothing happens; zero for never.
	Wake   time.Time
	Events []Event
}

// Event is a Kubernetes event about an object.
type Event struct {
	Warning         bool
	Reason, Message string
}

// Reasons of events. The first is OpenKruise's.
const (
	ReasonPullImageFailed = "PullImageFailed" // a node was given up; the message says why
	ReasonCompleted       = "Completed"       // the job has ended; the message counts nodes
)

// Texts that OpenKruise uses, by which people and tools recognize them; messageNoAnswer and messageAllCompleted are our own.
const (
	messageCompleted    = "job has completed"
	messageNoProgress   = "job is running, no progress"
	messageProgress     = "job is running, progress %.1f%%"
	messageDeadline     = "job exceeds activeDeadlineSeconds"
	messagePullFailed   = "Failed to pull image %s on node %s for %s"
	messageSilent       = "node has not responded for a long time"
	messageNoAnswer     = "the agent of the node does not answer: it has begun no pull"
	messageTagDeadline  = "pulling exceeds the activeDeadlineSeconds"
	messageAllCompleted = "image %s is there on %d of %d nodes, and was given up on %d"
)

// soonest is the earlier of two times, of which zero is never.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
