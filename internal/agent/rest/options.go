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

// Pods are the pods of the node as the agent knows them: from the watch, or from the disk.
type Pods interface {
	// Pods returns them sorted by namespace and name; the caller must not change them. seen is false until the pods have
	// been read once.
	Pods() (pods []*corev1.Pod, seen bool, err error)
}

// Cluster is the API server.
type Cluster interface {
	// Connected is whether it answers. It may ask, so it may take some seconds.
	Connected(ctx context.Context) bool
	Pod(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error)
	DeletePod(ctx context.Context, name types.NamespacedName, only metav1.Preconditions) error
	SetCondition(ctx context.Context, pod *corev1.Pod, condition corev1.PodCondition) error
	// NextAdvanced is the revision that a pod of an Advanced DaemonSet can be upgraded to, "" when there is none.
	NextAdvanced(ctx context.Context, pod *corev1.Pod, owner metav1.OwnerReference) (string, error)
	// Newest is the newest revision of a set: that name, if the revision of that name holds the same; "" when the set has none.
	Newest(ctx context.Context, namespace string, owner types.UID, name string) (string, error)
	// Review returns the user of a token, if it is valid and for one of those audiences.
	Review(ctx context.Context, token string, audiences ...string) (user authenticationv1.UserInfo, ok bool, err error)
	// May is whether a user may act on a pod; an empty name is all pods.
	May(ctx context.Context, user authenticationv1.UserInfo, verb string, pod types.NamespacedName) (bool, error)
}

// Decisions are kept on the disk.
type Decisions interface {
	Decisions() ([]v2.Decision, error)
	// Decision returns the one about a pod, nil when there is none.
	Decision(pod types.NamespacedName) (*v2.Decision, error)
	// Decide keeps a decision; when it returns without an error, it survives everything.
	Decide(d v2.Decision) error
	// Forget removes a decision, unless another one has taken its place.
	Forget(d v2.Decision) error
}

// Options are what the API of one node needs.
type Options struct {
	// Node is its name.
	Node      string
	Pods      Pods
	Cluster   Cluster
	Decisions Decisions
	// OpenYurt enables the routes of yurthub, which need no authentication.
	OpenYurt bool
	// Token is the token of the owner of the node. With an empty one there is no such token.
	Token string
	// SharedAudience is whether tokens of the cluster count that are for all nodes, and not for this one alone.
	SharedAudience bool
	// Host is whether a request may name a host in its Host header, which comes without the port.
	Host func(host string) bool
	// Now is the clock.
	Now func() time.Time
	// Event records an event about a pod.
	Event func(pod *corev1.Pod, kind, reason, message string)
	// Answered, when not nil, is called after each answer.
	Answered func(code int)
	// Limits bound what the API takes; the zero value is DefaultLimits.
	Limits Limits
}

// Limits bound what the API takes.
type Limits struct {
	// Requests and Changes are how many requests, and requests that change something, there may be per second, and twice as many at once: of
	// the owner of the node, of users of the cluster, of those that need no token, and of those that lack one, each. Reviews are questions about tokens: about those that were
	// good before, and about all others.
	Requests, Changes, Reviews int
	// BodyBytes is how large a body may be.
	BodyBytes int64
}

// DefaultLimits are far above what people and their scripts need, and far below what would harm the API server.
func DefaultLimits() Limits {
	return Limits{Requests: 50, Changes: 10, Reviews: 5, BodyBytes: 16 << 10}
}

// Reasons of the events.
const (
	ReasonUpgradeStarted = "NodeUpgradeStarted" // a decision of the owner of the node was carried out
	ReasonUpgradeVoid    = "NodeUpgradeVoid"    // such a decision will not be carried out; the message says why
)
