// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/config/v1alpha1"
	"everynode.dev/everynode/internal/controller/analyses"
	"everynode.dev/everynode/internal/controller/notifications"
)

// parseConfiguration decodes a configuration file; an unknown or repeated field is an error.
func parseConfiguration(data []byte) (*v1alpha1.ManagerConfiguration, error) {
	c := &v1alpha1.ManagerConfiguration{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, err
	}
	if c.APIVersion != v1alpha1.APIVersion || c.Kind != v1alpha1.Kind {
		return nil, fmt.Errorf("apiVersion %q and kind %q are not known: write apiVersion: %s and kind: %s",
			c.APIVersion, c.Kind, v1alpha1.APIVersion, v1alpha1.Kind)
	}
	return c, nil
}

// complete reads the configuration file for every flag that was not given, and validates all options.
func (o *options) complete(fs *pflag.FlagSet) error {
	if o.config != "" {
		data, err := os.ReadFile(o.config)
		if err != nil {
			return fmt.Errorf("reading the configuration file: %w", err)
		}
		c, err := parseConfiguration(data)
		if err != nil {
			return usagef("configuration file %s: %v", o.config, err)
		}
		if err := o.merge(fs, c); err != nil {
			return usagef("configuration file %s: %v", o.config, err)
		}
	}
	o.fillIn()
	if err := o.validate(); err != nil {
		return err
	}
	return o.readServers()
}

// readServers reads the files that name servers.
func (o *options) readServers() (err error) {
	if o.analysisProviders != "" {
		if o.providers, err = analyses.ReadProviders(o.analysisProviders); err != nil {
			return usagef("--analysis-providers %s: %v", o.analysisProviders, err)
		}
	}
	if o.notificationTargets != "" {
		if o.targets, err = notifications.ReadTargets(o.notificationTargets); err != nil {
			return usagef("--notification-targets %s: %v", o.notificationTargets, err)
		}
	}
	return nil
}

// merge uses the value of the file for each flag that was not given.
func (o *options) merge(fs *pflag.FlagSet, c *v1alpha1.ManagerConfiguration) error {
	le := c.LeaderElection
	if le == nil {
		le = &v1alpha1.LeaderElection{}
	}
	take(fs, "kubeconfig", &o.kubeconfig, c.Kubeconfig)
	take(fs, "namespace", &o.namespace, c.Namespace)
	take(fs, "concurrent-syncs", &o.concurrentSyncs, c.ConcurrentSyncs)
	take(fs, "kube-api-qps", &o.qps, c.KubeAPIQPS)
	take(fs, "kube-api-burst", &o.burst, c.KubeAPIBurst)
	take(fs, "metrics-bind-address", &o.metricsAddress, c.MetricsBindAddress)
	take(fs, "metrics-per-set", &o.metricsPerSet, c.MetricsPerSet)
	take(fs, "health-probe-bind-address", &o.healthAddress, c.HealthProbeBindAddress)
	take(fs, "leader-elect", &o.leaderElect, le.Enabled)
	if le.LeaseDuration != nil {
		take(fs, "leader-elect-lease-duration", &o.leaseDuration, &le.LeaseDuration.Duration)
	}
	if le.RenewDeadline != nil {
		take(fs, "leader-elect-renew-deadline", &o.renewDeadline, &le.RenewDeadline.Duration)
	}
	if le.RetryPeriod != nil {
		take(fs, "leader-elect-retry-period", &o.retryPeriod, &le.RetryPeriod.Duration)
	}
	if w := c.Webhook; w != nil {
		take(fs, "webhook-url", &o.webhookURL, w.URL)
		take(fs, "webhook-bind-address", &o.webhookAddress, w.BindAddress)
		take(fs, "webhook-cert-dir", &o.webhookCertDir, w.CertDir)
	}
	take(fs, "deployment", &o.deployment, c.Deployment)
	if c.EndingTimeout != nil {
		take(fs, "ending-timeout", &o.endingTimeout, &c.EndingTimeout.Duration)
	}
	take(fs, "in-place-wait-for-images", &o.imagesInPlace, c.InPlaceWaitForImages)
	if c.PullSecretNamespaces != nil {
		take(fs, "pull-secret-namespaces", &o.pullSecretNamespaces, &c.PullSecretNamespaces)
	}
	if c.ComeBackFirstNamespaces != nil {
		take(fs, "come-back-first-namespaces", &o.comeBackFirstNamespaces, &c.ComeBackFirstNamespaces)
	}
	take(fs, "analysis-providers", &o.analysisProviders, c.AnalysisProviders)
	take(fs, "notification-targets", &o.notificationTargets, c.NotificationTargets)
	if c.Dialects != nil {
		take(fs, "dialects", &o.dialects, &c.Dialects)
	}
	if len(c.FeatureGates) > 0 && !fs.Changed("feature-gates") {
		return o.gates.SetFromMap(c.FeatureGates)
	}
	return nil
}

func take[T any](fs *pflag.FlagSet, flag string, to, from *T) {
	if from != nil && !fs.Changed(flag) {
		*to = *from
	}
}
