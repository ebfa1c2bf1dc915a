// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Edits converts the actions that only some dialects have into patches of a pod. Its argument is the current pod from the API server.
// Edits are sent in order; when one fails, the rest is left out, and the next decision starts from what was reached.
type Edits interface {
	// Gates are the readiness gates that new pods of the set get, in addition to those of the template.
	Gates(w *Workload) []string
	// Prepare notifies the preDelete hook; evict reports whether the reason is that the node must not run the pod.
	Prepare(w *Workload, p *corev1.Pod, evict bool, now time.Time) []Edit
	Restore(w *Workload, p *corev1.Pod, now time.Time) []Edit
	Mark(p *corev1.Pod, now time.Time) []Edit
	Patch(p *corev1.Pod, c Change, now time.Time) []Edit
	Unmark(p *corev1.Pod, now time.Time) []Edit
	Resume(p *corev1.Pod, now time.Time) []Edit
}

// Edit is one strategic merge patch, of the pod or of a subresource of it.
type Edit struct {
	Patch []byte
	Of    Subresource
}

// Subresource is a part of a pod that has an address of its own.
type Subresource string

// The subresources; the zero value is the pod itself.
const (
	Whole  Subresource = ""
	Status Subresource = "status"
	Resize Subresource = "resize" // resources of containers
)

// Change is a change in place from one revision to another.
type Change struct {
	From, To map[string]any
	// Hash is the hash of the revision To.
	Hash string
	// CloseGate reports whether the pod is made not ready before the change, until its node runs the change.
	CloseGate bool
}

// Announcement is what a pod is to announce about a newer revision.
type Announcement struct {
	// UID is the UID of the pod.
	UID string
	// Old reports whether there is a newer revision, and Turned whether the pod has announced the opposite, or nothing readable.
	Old, Turned bool
	// Hash is the newest revision.
	Hash string
	// Withdraw reports whether the pod is not to say anything any more.
	Withdraw bool
}

// AnnounceFunc makes the edit that records an announcement in a pod.
type AnnounceFunc func(a Announcement, now time.Time) Edit
