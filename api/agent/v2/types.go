// SPDX-License-Identifier: Apache-2.0

// Package v2 declares the API of a node: the bodies of the routes below /v2 of everynode-agent, in JSON.
//
// Vocabulary. A revision is the hash of a ControllerRevision, as in the label controller-revision-hash of a pod. The
// next revision of a pod is the newest one of its set, if the pod has an older one. A decision is an upgrade that the
// owner of the node has requested, and that is stored on the node until it can be executed.
//
// Rule: fields may be added, and never change their meaning. A test compares these types with the OpenAPI document in
// internal/agent/rest.
package v2

import "time"

// Audience is the audience of tokens of the cluster for all nodes. An agent accepts them only if that is enabled.
const Audience = "everynode-agent"

// AudienceOf returns the audience of tokens of the cluster for one node: a token that was sent to one node cannot be
// used at another.
func AudienceOf(node string) string { return Audience + "/" + node }

// PodList is the response to GET /v2/pods.
type PodList struct {
	// Node is the name of the node; Connected reports whether it reaches the cluster. If not, the pods are the last
	// known ones.
	Node      string `json:"node"`
	Connected bool   `json:"connected"`
	Pods      []Pod  `json:"pods"`
}

// Pod is one pod of the node.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Owner is the controller of the pod, such as DaemonSet.apps/agent; "" if there is none.
	Owner    string `json:"owner,omitempty"`
	Phase    string `json:"phase,omitempty"`
	Ready    bool   `json:"ready"`
	Deleting bool   `json:"deleting,omitempty"`
	// Revision is the revision of the pod. NextRevision is the newer one that it can be upgraded to; "" if there is
	// none, or if it is not known without the cluster.
	Revision     string `json:"revision,omitempty"`
	NextRevision string `json:"nextRevision,omitempty"`
	Images       Images `json:"images"`
	// Decision is the stored upgrade of the pod.
	Decision *Decision `json:"decision,omitempty"`
}

// ImageState is the state of the images of the next revision.
type ImageState string

// States of images. Images that were not requested are pulled when the new pod starts.
const (
	ImagesNotRequested ImageState = "NotRequested"
	ImagesPulling      ImageState = "Pulling"
	ImagesReady        ImageState = "Ready"
	ImagesFailed       ImageState = "Failed"
	// ImagesOutdated were requested for a revision that is no longer the next one. Request them again to pull those of
	// the next one.
	ImagesOutdated ImageState = "Outdated"
)

// Images is the state of the images of the next revision.
type Images struct {
	State ImageState `json:"state"`
	// Revision is the revision whose images were requested, Message describes a failure.
	Revision string `json:"revision,omitempty"`
	Message  string `json:"message,omitempty"`
}

// Precondition is the body of POST …/upgrade and POST …/imagepull; it is optional. If a given field does not match, the
// response is 409.
type Precondition struct {
	// UID is the UID of the pod.
	UID string `json:"uid,omitempty"`
	// Revision is the next revision, to which the pod is upgraded.
	Revision string `json:"revision,omitempty"`
}

// WhenConnected is the value of ?when= to store an upgrade until the cluster is reachable.
const WhenConnected = "connected"

// Upgrade is the response to a POST …/upgrade that was executed: the pod with that UID is being deleted, and its
// replacement will have that revision.
type Upgrade struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Revision  string `json:"revision,omitempty"`
}

// ImagePull is the response to POST …/imagepull.
type ImagePull struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Images    Images `json:"images"`
}

// DecisionState is the state of a decision.
type DecisionState string

const (
	// DecisionPending waits for the cluster, or for what Message names.
	DecisionPending DecisionState = "Pending"
	// DecisionVoid will not be executed, for the reason in Message. It stays until it is removed or replaced, or its pod
	// does not exist any more.
	DecisionVoid DecisionState = "Void"
)

// Decision is an upgrade that is stored on the node. It is for one pod and one revision.
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

// Reason is the reason why a request was not served, for programs; Error.Message is for users.
type Reason string

// The reasons.
const (
	ReasonBadRequest       Reason = "BadRequest"       // 400: the body, a parameter or a name is invalid
	ReasonUnauthorized     Reason = "Unauthorized"     // 401: no token, or no valid one
	ReasonForbidden        Reason = "Forbidden"        // 403: the token may not do this
	ReasonForeignNode      Reason = "ForeignNode"      // 403: the pod runs on another node
	ReasonNotFound         Reason = "NotFound"         // 404: there is no such pod, decision or route
	ReasonMethodNotAllowed Reason = "MethodNotAllowed" // 405
	ReasonChanged          Reason = "Changed"          // 409: a precondition about the pod or its next revision is not met
	ReasonDeleting         Reason = "Deleting"         // 409: the pod is already being deleted
	ReasonUpToDate         Reason = "UpToDate"         // 409: there is no newer revision
	ReasonImagesNotReady   Reason = "ImagesNotReady"   // 409: its images were requested, and are not on the node yet
	ReasonUnsupported      Reason = "Unsupported"      // 409: the pod does not belong to a DaemonSet
	ReasonTooLarge         Reason = "TooLarge"         // 413: the body is too large
	ReasonWrongHost        Reason = "WrongHost"        // 421: the Host header is not this node
	ReasonTooMany          Reason = "TooManyRequests"  // 429: see the header Retry-After
	ReasonInternal         Reason = "Internal"         // 500
	ReasonClusterFailed    Reason = "ClusterFailed"    // 502: the API server has refused or failed
	ReasonDisconnected     Reason = "Disconnected"     // 503: the cluster cannot be reached
)

// Error is the response to a request that was not served.
type Error struct {
	Code    int    `json:"code"`
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}
