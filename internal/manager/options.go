// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"

	"everynode.dev/everynode/api/config/v1alpha1"
	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/controller/analyses"
	"everynode.dev/everynode/internal/controller/notifications"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/features"
	"everynode.dev/everynode/internal/webhook"
)

// options are the settings of the manager, from flags and the configuration file.
type options struct {
	config          string
	kubeconfig      string
	namespace       string
	dialects        []string
	concurrentSyncs int
	qps             float32
	burst           int
	metricsAddress  string
	metricsPerSet   bool
	profiling       bool
	healthAddress   string
	webhookURL      string
	webhookAddress  string
	webhookCertDir  string
	leaderElect     bool
	leaseDuration   time.Duration
	renewDeadline   time.Duration
	retryPeriod     time.Duration
	deployment      string
	endingTimeout   time.Duration
	gates           featuregate.MutableFeatureGate

	pullSecretNamespaces []string
	imagesInPlace        bool

	comeBackFirstNamespaces []string

	// providers are the providers in the file analysisProviders; policies may name them.
	analysisProviders string
	providers         analyses.Providers

	// targets are the targets in the file notificationTargets, which are notified of rollouts; nil for none.
	notificationTargets string
	targets             *notifications.Targets

	// leftOut is the reason why the dialect kruise is not served although it was requested.
	leftOut error
	// definitions are the CRDs of that dialect; features that need a missing one are not served.
	definitions definitions

	logs *logsapi.LoggingConfiguration
}

// UsageError is an error in the command line or the configuration file.
type UsageError struct{ message string }

func (e *UsageError) Error() string { return e.message }

func usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// NewCommand returns the command everynode-manager with that version.
func NewCommand(version string) *cobra.Command {
	o := newOptions()
	command := &cobra.Command{
		Use:   "everynode-manager",
		Short: "Keeps one pod on every node, and changes it safely.",
		Long: "everynode-manager runs the controllers of Everynode: it keeps one pod of each daemon set on every node\n" +
			"that should have one, and rolls changes out within the budgets of the set.",
		Example: "  # Outside of a cluster, without leader election:\n" +
			"  everynode-manager --kubeconfig ~/.kube/config --leader-elect=false\n\n" +
			"  # With a configuration file; flags win over it:\n" +
			"  everynode-manager --config manager.yaml --kube-api-qps 100",
		Version:       version,
		Args:          noArguments,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.complete(c.Flags()); err != nil {
				return err
			}
			return run(c.Context(), o)
		},
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{err.Error()} })
	o.addFlags(command.Flags())
	return command
}

func newOptions() *options { return &options{logs: logsapi.NewLoggingConfiguration()} }

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q: everything is given by flags", args[0])
	}
	return nil
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.config, "config", "", "A configuration file ("+v1alpha1.APIVersion+", kind "+v1alpha1.Kind+"); flags win over it.")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "The kubeconfig of the cluster. Without it, the KUBECONFIG variable, the service account of the pod, or ~/.kube/config.")
	fs.StringVar(&o.namespace, "namespace", everynode.Namespace, "The namespace of Everynode itself: for the lease of the leader, and for the probe for other controllers.")
	fs.StringSliceVar(&o.dialects, "dialects", dialects.Defaults(), "The dialects to serve. Known: "+strings.Join(dialects.Names(), ", ")+". "+
		"With native and openyurt the annotations of OpenYurt are read as well; openyurt without native works next to the controller that creates the pods. "+
		"So does policy, which needs nothing else in the cluster to be switched off: with it, rollout policies update DaemonSets that have the strategy OnDelete.")
	fs.IntVar(&o.concurrentSyncs, "concurrent-syncs", 4, "How many daemon sets are worked on at once.")
	fs.Float32Var(&o.qps, "kube-api-qps", 0, "Requests a second to the API server, on average, of all controllers together. 0 means no limit where the API server "+
		"has priority and fairness, which keeps clients from holding up each other, and 50 where its answers do not show that. How many writes are under way at once follows what the API server bears.")
	fs.IntVar(&o.burst, "kube-api-burst", 100, "Requests to the API server in a burst, where there is a limit.")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "Where metrics are served; 0 switches them off.")
	fs.BoolVar(&o.metricsPerSet, "metrics-per-set", false, "Give metrics of sets the labels namespace and name. Without it the numbers of all sets are added up.")
	fs.BoolVar(&o.profiling, "profiling", false, "Serve profiles of the manager under /debug/pprof/, where the metrics are.")
	fs.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "Where /healthz and /readyz are served; 0 switches them off.")
	fs.StringVar(&o.webhookURL, "webhook-url", "", "The URL, https://host:port, under which the API server reaches the webhooks of this manager. "+
		"Without it the API server reaches them through the Service "+webhook.ServiceName+". Only the dialect kruise has webhooks.")
	fs.StringVar(&o.webhookAddress, "webhook-bind-address", "", "Where the webhooks are served. Without it that is :9443, or the port of --webhook-url.")
	fs.StringVar(&o.webhookCertDir, "webhook-cert-dir", "", "A directory with tls.crt, tls.key and maybe ca.crt for the webhooks. Without it the manager makes and renews its own certificate.")
	fs.BoolVar(&o.leaderElect, "leader-elect", true, "Have several managers agree on the one that works. Needed when more than one may run.")
	fs.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 10*time.Second, "How long other managers wait for a leader that does not renew its lease.")
	fs.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 7*time.Second, "How long a leader tries to renew its lease before it stops working.")
	fs.DurationVar(&o.retryPeriod, "leader-elect-retry-period", 1500*time.Millisecond, "Time between tries to get or renew the lease.")
	fs.StringVar(&o.deployment, "deployment", "", "The Deployment of this manager in its own namespace. When a leader is asked to stop and this Deployment is scaled to zero, being deleted or gone, the leader begins nothing new, "+
		"and stops when no pod waits out of service for a manager any more. Otherwise, and without this flag, it stops at once, and another manager takes over.")
	fs.DurationVar(&o.endingTimeout, "ending-timeout", defaultEndingTimeout, "How long that takes at most: some seconds less than terminationGracePeriodSeconds of the pod of the manager. 0 switches it off.")
	fs.BoolVar(&o.imagesInPlace, "in-place-wait-for-images", true, "Have a change in place of an Advanced DaemonSet wait for its images where an agent runs on the node: the agent pulls them while the old containers run. "+
		"What the annotation wait-for-image of a set says takes precedence.")
	fs.StringSliceVar(&o.pullSecretNamespaces, "pull-secret-namespaces", nil, "The namespaces from which pull secrets of ImagePullJobs may be copied to where the agents of all nodes read them.")
	fs.StringSliceVar(&o.comeBackFirstNamespaces, "come-back-first-namespaces", nil, "The namespaces whose Advanced DaemonSets may hold other pods back from a node that comes back, with the annotation come-back-first-seconds. "+
		"The manager then needs the ClusterRole everynode-manager-come-back-first.")
	fs.StringVar(&o.analysisProviders, "analysis-providers", "", "A file ("+v1alpha1.APIVersion+", kind "+v1alpha1.KindProviders+") with the providers that rollout policies may name in spec.analyses "+
		"and spec.blockOnAlerts: each a Prometheus or a webhook. It is read again when it changes; if it has a mistake then, the earlier content counts.")
	fs.StringVar(&o.notificationTargets, "notification-targets", "", "A file ("+v1alpha1.APIVersion+", kind "+v1alpha1.KindTargets+") with the webhooks that are notified of the steps of rollouts "+
		"under rollout policies. It is read again when it changes; if it has a mistake then, the earlier content counts.")
	gates, err := features.New()
	if err != nil {
		panic(err) // two feature gates have the same name; every test that creates a command detects this
	}
	o.gates = gates
	o.gates.AddFlag(fs)
	logsapi.AddFlags(o.logs, fs)
}

// defaultEndingTimeout is the default of --ending-timeout. The pods of the manifests have 60 seconds (config/manager).
const defaultEndingTimeout = 45 * time.Second

// defaultWebhookAddress is the address of the webhook server without --webhook-url.
const defaultWebhookAddress = ":9443"

// fillIn sets options that follow from others: the port of --webhook-url is the default port of the webhook server.
func (o *options) fillIn() {
	if o.webhookAddress != "" {
		return
	}
	o.webhookAddress = defaultWebhookAddress
	if u, err := url.Parse(o.webhookURL); err == nil && u.Port() != "" {
		o.webhookAddress = ":" + u.Port()
	}
}

// validate validates all settings.
func (o *options) validate() error {
	known := dialects.Names()
	for _, name := range o.dialects {
		if !slices.Contains(known, name) {
			return usagef("unknown dialect %q in --dialects: known are %s", name, strings.Join(known, ", "))
		}
	}
	for flag, names := range map[string][]string{"pull-secret-namespaces": o.pullSecretNamespaces, "come-back-first-namespaces": o.comeBackFirstNamespaces} {
		for _, name := range names {
			if len(validation.IsDNS1123Label(name)) > 0 {
				return usagef("%q in --%s is not the name of a namespace: use lower-case letters, digits and '-'", name, flag)
			}
		}
	}
	_, _, addressErr := splitAddress(o.webhookAddress)
	switch {
	case len(o.dialects) == 0:
		return usagef("--dialects is empty: name at least one of %s", strings.Join(known, ", "))
	case o.concurrentSyncs < 1:
		return usagef("--concurrent-syncs must be greater than 0, but got %d", o.concurrentSyncs)
	case o.qps < 0:
		return usagef("--kube-api-qps must be 0, for no limit where the API server shares its capacity itself, or greater, but got %v", o.qps)
	case o.endingTimeout < 0:
		return usagef("--ending-timeout must be 0, to stop at once, or greater, but got %v", o.endingTimeout)
	case len(validation.IsDNS1123Subdomain(o.deployment)) > 0 && o.deployment != "":
		return usagef("--deployment %q is not the name of a Deployment: use lower-case letters, digits, '-' and '.'", o.deployment)
	case o.burst < 1:
		return usagef("--kube-api-burst must be greater than 0, but got %d", o.burst)
	case len(validation.IsDNS1123Label(o.namespace)) > 0:
		return usagef("--namespace %q is not the name of a namespace: use lower-case letters, digits and '-'", o.namespace)
	case o.webhookURL != "" && !slices.Contains(o.dialects, dialects.Kruise):
		return usagef("--webhook-url is given, but only the dialect %s has webhooks: add it to --dialects, or leave the URL out", dialects.Kruise)
	case addressErr != nil:
		return usagef("--webhook-bind-address %q cannot be listened on: %v: write host:port or :port", o.webhookAddress, addressErr)
	case o.metricsAddress == o.healthAddress && o.metricsAddress != "0":
		return usagef("--metrics-bind-address and --health-probe-bind-address are both %s: give them different ports", o.metricsAddress)
	case o.profiling && o.metricsAddress == "0":
		return usagef("--profiling needs a --metrics-bind-address: profiles are served where the metrics are")
	case o.leaderElect && !o.canElect():
		return usagef("leader election needs lease duration (%v) > renew deadline (%v) > %v times retry period (%v) > 0, and a lease duration of 1s or more",
			o.leaseDuration, o.renewDeadline, leaderelection.JitterFactor, o.retryPeriod)
	}
	return nil
}

// canElect reports whether leader election works with these durations. The API server stores the duration of a lease in
// whole seconds, and rejects 0.
func (o *options) canElect() bool {
	retry := time.Duration(leaderelection.JitterFactor * float64(o.retryPeriod))
	return o.leaseDuration >= time.Second && o.leaseDuration > o.renewDeadline && o.renewDeadline > retry && o.retryPeriod > 0
}
