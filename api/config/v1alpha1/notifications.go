// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindTargets is the kind of a file with targets of notifications.
const KindTargets = "NotificationTargets"

// NotificationTargets are the servers that are notified of the steps of rollouts under rollout policies (--notification-targets).
type NotificationTargets struct {
	metav1.TypeMeta `json:",inline"`

	// Source is the attribute source of all events: a URI reference that names the cluster. The default is /everynode.
	Source  string               `json:"source,omitempty"`
	Targets []NotificationTarget `json:"targets"`
}

// NotificationTarget is one target. It gets each event as a POST with a CloudEvent, signed as the Standard Webhooks specify it.
type NotificationTarget struct {
	// Name is how logs and metrics name it.
	Name string `json:"name"`
	// Webhook is where it is reached.
	Webhook *ProviderEndpoint `json:"webhook"`
	// SigningKeyFiles are files with one key each: whsec_ and 24 to 64 bytes in base64. A request has a signature with each of them. They are read for each
	// request. Two files let the key be replaced: the receiver accepts either of them meanwhile.
	SigningKeyFiles []string `json:"signingKeyFiles"`
	// Events are the types of events that it gets, for example failed; all if there are none.
	Events []string `json:"events,omitempty"`
	// Namespaces are those whose rollouts it is notified of; all if there are none.
	Namespaces []string `json:"namespaces,omitempty"`
	// Timeout is how long a request may take, from 1s to 1m. The default is 10s.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// MaxAge is how long the delivery of an event is tried, from 1m to 24h. The default is 1h.
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
}
