// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "everynode.dev/everynode/api/agent/v2"
)

// Pods are the pods of the node, from the watch or from disk.
type Pods interface {
	// Pods returns them sorted by namespace and name; the caller must not change them. seen is false until the pods have
	// been read once.
	Pods() (pods []*corev1.Pod, seen bool, err error)
}

// Cluster is the API server.
type Cluster interface {
	// Connected reports whether it responds. This may send a request and take a few seconds.
	Connected(ctx context.Context) bool
	Pod(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error)
	DeletePod(ctx context.Context, name types.NamespacedName, only metav1.Preconditions) error
	SetCondition(ctx context.Context, pod *corev1.Pod, condition corev1.PodCondition) error
	// NextAdvanced returns the revision that a pod of an Advanced DaemonSet can be upgraded to, or "".
	NextAdvanced(ctx context.Context, pod *corev1.Pod, owner metav1.OwnerReference) (string, error)
	// Newest returns the newest revision of a set: the given name, if the revision of that name has the same template;
	// "" if the set has none.
	Newest(ctx context.Context, namespace string, owner types.UID, name string) (string, error)
	// Review returns the user of a token, if it is valid and for one of these audiences.
	Review(ctx context.Context, token string, audiences ...string) (user authenticationv1.UserInfo, ok bool, err error)
	// May reports whether a user may act on a pod; an empty name means all pods.
	May(ctx context.Context, user authenticationv1.UserInfo, verb string, pod types.NamespacedName) (bool, error)
}

// Decisions are stored on disk.
type Decisions interface {
	Decisions() ([]v2.Decision, error)
	// Decision returns the decision about a pod, or nil.
	Decision(pod types.NamespacedName) (*v2.Decision, error)
	// Decide stores a decision; after it returns without an error, the decision survives a crash.
	Decide(d v2.Decision) error
	// Forget removes a decision, unless it was replaced.
	Forget(d v2.Decision) error
}

// Options are the settings of the API of one node.
type Options struct {
	// Node is the name of the node.
	Node      string
	Pods      Pods
	Cluster   Cluster
	Decisions Decisions
	// OpenYurt enables the routes of yurthub, which need no authentication.
	OpenYurt bool
	// Token is the token of the owner of the node. If it is empty, there is no such token.
	Token string
	// SharedAudience reports whether tokens of the cluster for all nodes are accepted, and not only those for this node.
	SharedAudience bool
	// Host reports whether the Host header of a request may have this host, given without the port.
	Host func(host string) bool
	// Now is the clock.
	Now func() time.Time
	// Event records an event about a pod.
	Event func(pod *corev1.Pod, kind, reason, message string)
	// Answered, if not nil, is called after each response.
	Answered func(code int)
	// Limits are the limits of requests; the zero value means DefaultLimits.
	Limits Limits
}

// Limits are the limits of requests.
type Limits struct {
	// Requests and Changes are the numbers of requests, and of requests that change something, per second; bursts may be
	// twice as large. Each applies separately to the owner of the node, to users of the cluster, to requests that need
	// no token, and to requests without a valid token. Reviews limits token reviews, separately for tokens that were
	// valid before and for all others.
	Requests, Changes, Reviews int
	// BodyBytes is the maximum size of a body.
	BodyBytes int64
}

// DefaultLimits are far above what users and scripts need, and far below what would harm the API server.
func DefaultLimits() Limits {
	return Limits{Requests: 50, Changes: 10, Reviews: 5, BodyBytes: 16 << 10}
}

// Reasons of the events.
const (
	ReasonUpgradeStarted = "NodeUpgradeStarted" // a decision of the owner of the node was executed
	ReasonUpgradeVoid    = "NodeUpgradeVoid"    // such a decision will not be executed; the message has the reason
)
