// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindProviders is the kind of a file with providers.
const KindProviders = "AnalysisProviders"

// AnalysisProviders are the providers that rollout policies may name in spec.analyses and spec.blockOnAlerts (--analysis-providers).
type AnalysisProviders struct {
	metav1.TypeMeta `json:",inline"`

	Providers []AnalysisProvider `json:"providers"`
}

// AnalysisProvider is one provider: a Prometheus or a webhook.
type AnalysisProvider struct {
	// Name is how policies name it.
	Name string `json:"name"`
	// Namespaces are those whose policies may name it; all if there are none.
	Namespaces []string `json:"namespaces,omitempty"`
	// Timeout is how long an answer may take, from 1s to 1m. The default is 10s.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// Prometheus is an API of Prometheus, also of what serves the same API. The address is the part before /api/v1.
	Prometheus *ProviderEndpoint `json:"prometheus,omitempty"`
	// Webhook gets a POST for each measurement.
	Webhook *ProviderEndpoint `json:"webhook,omitempty"`
}

// ProviderEndpoint is where a provider, or a target of notifications, is reached.
type ProviderEndpoint struct {
	// URL begins with https:// or http://.
	URL string `json:"url"`
	// CAFile has the certificates of the authorities that may have signed the one of the server. The default are those of the system.
	CAFile string `json:"caFile,omitempty"`
	// BearerTokenFile has the token of the requests. It is read for each of them, and needs https.
	BearerTokenFile string `json:"bearerTokenFile,omitempty"`
}
