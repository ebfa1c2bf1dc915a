// SPDX-License-Identifier: Apache-2.0

// Package v2 declares what the API of a node says and takes: the bodies of the routes below /v2 of everynode-agent, in JSON.
//
// Vocabulary. A revision is the hash of a ControllerRevision, as in the label controller-revision-hash of a pod. The next
// revision of a pod is the newest one of its set, while the pod has an older one. A decision is an upgrade that the owner of the
// node has asked for, and that is kept on the node until its time has come.
//
// Rule: fields are added, and never change their meaning. The OpenAPI document
// in internal/agent/rest says what the types here say; a test compares the two.
package v2

import "time"

// Audience is the audience of tokens of the cluster that are for all nodes. An agent takes them only if it is told to.
const Audience = "everynode-agent"

// AudienceOf is the audience that tokens of the cluster must be for at the node of that name: what one node is sent is of no use at another.
func AudienceOf(node string) string { return Audience + "/" + node }

// PodList is the answer to GET /v2/pods.
type PodList struct {
	// Node is the name of the node, and Connected whether it reaches the cluster. The pods of a node that does not are those
	// that it has seen last.
	Node      string `json:"node"`
	Connected bool   `json:"connected"`
	Pods      []Pod  `json:"pods"`
}

// Pod is one pod of the node.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Owner is who keeps the pod, such as DaemonSet.apps/agent; "" for a pod that nobody keeps.
	Owner    string `json:"owner,omitempty"`
	Phase    string `json:"phase,omitempty"`
	Ready    bool   `json:"ready"`
	Deleting bool   `json:"deleting,omitempty"`
	// Revision is the one that the pod has. NextRevision is the newer one that it can be upgraded to; "" when there is none, or
	// when that is not known without the cluster.
	Revision     string `json:"revision,omitempty"`
	NextRevision string `json:"nextRevision,omitempty"`
	Images       Images `json:"images"`
	// Decision is the upgrade that is kept for the pod.
	Decision *Decision `json:"decision,omitempty"`
}

// ImageState is how far the images of the next revision are.
type ImageState string

// The states of images. Images that nobody has asked for are pulled when the new pod begins.
const (
	ImagesNotRequested ImageState = "NotRequested"
	ImagesPulling      ImageState = "Pulling"
	ImagesReady        ImageState = "Ready"
	ImagesFailed       ImageState = "Failed"
	// ImagesOutdated were asked for, for a revision that is not the next one any more. Ask again to have them pulled.
	ImagesOutdated ImageState = "Outdated"
)

// Images says how far the images of the next revision are.
type Images struct {
	State ImageState `json:"state"`
	// Revision is the one whose images were asked for, and Message what there is to say of a failure.
	Revision string `json:"revision,omitempty"`
	Message  string `json:"message,omitempty"`
}

// Precondition is the body of POST …/upgrade and POST …/imagepull; it may be left out. What it names must be so, or the answer is 409.
type Precondition struct {
	// UID is that of the pod.
	UID string `json:"uid,omitempty"`
	// Revision is the next one, to which the pod is upgraded.
	Revision string `json:"revision,omitempty"`
}

// WhenConnected is the value of ?when= with which an upgrade is kept until the cluster can be reached.
const WhenConnected = "connected"

// Upgrade is the answer to POST …/upgrade that was carried out: the pod with that UID is being deleted, and its successor will
// have that revision.
type Upgrade struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Revision  string `json:"revision,omitempty"`
}

// ImagePull is the answer to POST …/imagepull.
type ImagePull struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Images    Images `json:"images"`
}

// DecisionState is what becomes of a decision.
type DecisionState string

const (
	// DecisionPending waits for the cluster, or for what Message says.
	DecisionPending DecisionState = "Pending"
	// DecisionVoid will not be carried out, for the reason in Message. It stays until it is removed, replaced, or its pod is gone.
	DecisionVoid DecisionState = "Void"
)

// Decision is an upgrade that is kept on the node. It is for one pod and one revision, and for nothing that comes after them.
type Decision struct {
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	UID       string        `json:"uid"`
	Revision  string        `json:"revision"`
	State     DecisionState `json:"state"`
	Message   string        `json:"message,omitempty"`
	// Made is when it was made.
	Made time.Time `json:"made"`
}

// Reason is why a request was not served, for programs; Error.Message is for people.
type Reason string

// The reasons.
const (
	ReasonBadRequest       Reason = "BadRequest"       // 400: the body, a parameter or a name cannot be read
	ReasonUnauthorized     Reason = "Unauthorized"     // 401: no token, or none that is known
	ReasonForbidden        Reason = "Forbidden"        // 403: the token may not do this
	ReasonForeignNode      Reason = "ForeignNode"      // 403: the pod runs on another node
	ReasonNotFound         Reason = "NotFound"         // 404: there is no such pod, decision or route
	ReasonMethodNotAllowed Reason = "MethodNotAllowed" // 405
	ReasonChanged          Reason = "Changed"          // 409: the pod or its next revision is not the one that was named
	ReasonDeleting         Reason = "Deleting"         // 409: the pod is being deleted already
	ReasonUpToDate         Reason = "UpToDate"         // 409: there is no newer revision
	ReasonImagesNotReady   Reason = "ImagesNotReady"   // 409: its images were asked for, and are not there yet
	ReasonUnsupported      Reason = "Unsupported"      // 409: the pod is none of a DaemonSet
	ReasonTooLarge         Reason = "TooLarge"         // 413: the body is too large
	ReasonWrongHost        Reason = "WrongHost"        // 421: the Host header is not this node
	ReasonTooMany          Reason = "TooManyRequests"  // 429: see the header Retry-After
	ReasonInternal         Reason = "Internal"         // 500
	ReasonClusterFailed    Reason = "ClusterFailed"    // 502: the API server has refused or failed
	ReasonDisconnected     Reason = "Disconnected"     // 503: the cluster cannot be reached
)

// Error is the answer to a request that was not served.
type Error struct {
	Code    int    `json:"code"`
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}
