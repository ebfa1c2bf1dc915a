// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the first version of the manager's configuration file. Each field corresponds to a flag; a flag
// on the command line takes precedence over the file.
package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The apiVersion and kind of a configuration file.
const (
	APIVersion = "config.everynode.dev/v1alpha1"
	Kind       = "ManagerConfiguration"
)

// ManagerConfiguration is the configuration of everynode-manager. An absent field has the default of its flag.
type ManagerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	Kubeconfig              *string          `json:"kubeconfig,omitempty"`
	Namespace               *string          `json:"namespace,omitempty"`
	Dialects                []string         `json:"dialects,omitempty"`
	ConcurrentSyncs         *int             `json:"concurrentSyncs,omitempty"`
	Deployment              *string          `json:"deployment,omitempty"`
	EndingTimeout           *metav1.Duration `json:"endingTimeout,omitempty"`
	InPlaceWaitForImages    *bool            `json:"inPlaceWaitForImages,omitempty"`
	ComeBackFirstNamespaces []string         `json:"comeBackFirstNamespaces,omitempty"`
	PullSecretNamespaces    []string         `json:"pullSecretNamespaces,omitempty"`
	AnalysisProviders       *string          `json:"analysisProviders,omitempty"`
	NotificationTargets     *string          `json:"notificationTargets,omitempty"`
	KubeAPIQPS              *float32         `json:"kubeAPIQPS,omitempty"`
	KubeAPIBurst            *int             `json:"kubeAPIBurst,omitempty"`
	MetricsBindAddress      *string          `json:"metricsBindAddress,omitempty"`
	MetricsPerSet           *bool            `json:"metricsPerSet,omitempty"`
	HealthProbeBindAddress  *string          `json:"healthProbeBindAddress,omitempty"`
	Webhook                 *Webhook         `json:"webhook,omitempty"`
	LeaderElection          *LeaderElection  `json:"leaderElection,omitempty"`
	FeatureGates            map[string]bool  `json:"featureGates,omitempty"`
}

// Webhook defines how the API server reaches the webhooks.
type Webhook struct {
	URL         *string `json:"url,omitempty"`
	BindAddress *string `json:"bindAddress,omitempty"`
	CertDir     *string `json:"certDir,omitempty"`
}

// LeaderElection configures the election of the active manager.
type LeaderElection struct {
	Enabled       *bool            `json:"enabled,omitempty"`
	LeaseDuration *metav1.Duration `json:"leaseDuration,omitempty"`
	RenewDeadline *metav1.Duration `json:"renewDeadline,omitempty"`
	RetryPeriod   *metav1.Duration `json:"retryPeriod,omitempty"`
}
