// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	logsapi "k8s.io/component-base/logs/api/v1"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/agent/rest"
)

// nodeNameVariable is the environment variable with the default of --node-name.
const nodeNameVariable = "NODE_NAME"

// options are the settings of the agent.
type options struct {
	kubeconfig      string
	node            string
	socket          string
	metricsAddress  string
	pulls           int
	fillPercent     int
	secretNamespace string
	pluginConfig    string
	pluginDir       string

	listen      string
	listenHost  string // the host of listen, "" for all
	openYurt    bool
	stateDir    string
	tokenFile   string
	allNodes    bool // whether tokens for all nodes are accepted
	certFile    string
	keyFile     string
	certificate *tls.Certificate

	logs *logsapi.LoggingConfiguration
}

// UsageError is an error in the command line.
type UsageError struct{ message string }

func (e *UsageError) Error() string { return e.message }

func usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// NewCommand returns the command everynode-agent with that version.
func NewCommand(version string) *cobra.Command {
	o := &options{logs: logsapi.NewLoggingConfiguration()}
	command := &cobra.Command{
		Use:   "everynode-agent",
		Short: "Pulls images ahead on its node, and serves the API of the node.",
		Long: "everynode-agent runs on each node. It pulls the images that the NodeImage of its node names, through the\n" +
			"container runtime of the node, and reports the progress in the status of the NodeImage. It also serves the API of\n" +
			"the node, with which the owner of the node decides when pods are upgraded.",
		Example: "  everynode-agent --node-name node-1 --kubeconfig /etc/kubernetes/kubelet.conf\n\n" +
			"  # With a manager that serves the dialect openyurt:\n" +
			"  everynode-agent --node-name node-1 --openyurt-api\n\n" +
			"  # With the credential provider plugins of the kubelet:\n" +
			"  everynode-agent --node-name node-1 --credential-provider-config /etc/kubernetes/credentials.yaml \\\n" +
			"    --credential-provider-bin-dir /usr/libexec/kubernetes/credentials",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected argument %q: everything is given by flags", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return run(c.Context(), o)
		},
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{err.Error()} })
	o.addFlags(command.Flags())
	return command
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "The kubeconfig of the cluster. Without it, the KUBECONFIG variable, the service account of the pod, or ~/.kube/config.")
	fs.StringVar(&o.node, "node-name", "", "The name of the node that the agent runs on. Without it, the "+nodeNameVariable+" variable.")
	fs.StringVar(&o.socket, "cri-socket", "unix:///run/containerd/containerd.sock", "The socket of the container runtime.")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", "127.0.0.1:10268", "The address of /metrics, /healthz and /readyz; 0 disables them.")
	fs.IntVar(&o.pulls, "max-concurrent-pulls", 3, "The maximum number of concurrent image pulls; 0 means no limit.")
	fs.IntVar(&o.fillPercent, "image-fs-limit", 85, "The usage of the image file system, in percent, at which the agent stops pulling images; 0 means no limit.")
	fs.StringVar(&o.secretNamespace, "pull-secret-namespace", kruise.PullSecretNamespace, "The only namespace from which pull secrets are read.")
	fs.StringVar(&o.pluginConfig, "credential-provider-config", "", "The credential provider config of the kubelet, a file or a directory.")
	fs.StringVar(&o.pluginDir, "credential-provider-bin-dir", "", "The directory with the credential provider plugins of the kubelet.")
	fs.StringVar(&o.listen, "listen", "127.0.0.1:10267", "The address of the API of the node; 0 disables it. An address that is not a loopback address needs TLS.")
	fs.BoolVar(&o.openYurt, "openyurt-api", false, "Also serve the routes of OpenYurt's yurthub: GET /pods, and POST …/upgrade and …/imagepull below /openyurt.io/v1. They have no authentication. Set it when the manager serves the dialect openyurt.")
	fs.StringVar(&o.stateDir, "state-dir", "/var/lib/everynode-agent", "The directory with the state that the agent needs while the cluster is not reachable.")
	fs.StringVar(&o.tokenFile, "token-file", "", "The file with the token of the owner of the node; the agent creates it if it does not exist. Default: the file token in --state-dir.")
	fs.BoolVar(&o.allNodes, "accept-shared-audience", false, "Also accept tokens of the cluster for the audience everynode-agent, and not only for everynode-agent/NODE. A compromised node can use such a token at all other nodes.")
	fs.StringVar(&o.certFile, "tls-cert-file", "", "The certificate of the API of the node. The Host header may contain its names.")
	fs.StringVar(&o.keyFile, "tls-private-key-file", "", "The key of --tls-cert-file.")
	logsapi.AddFlags(o.logs, fs)
}

// complete sets defaults and validates all options.
func (o *options) complete() error {
	if o.node == "" {
		o.node = os.Getenv(nodeNameVariable)
	}
	_, _, addressErr := net.SplitHostPort(o.metricsAddress)
	switch {
	case o.node == "":
		return usagef("the name of the node is missing: set --node-name or %s", nodeNameVariable)
	case len(validation.IsDNS1123Subdomain(o.node)) > 0:
		return usagef("--node-name %q is not the name of a node: use lower-case letters, digits, '-' and '.'", o.node)
	case !strings.HasPrefix(o.socket, "unix:///"):
		return usagef("--cri-socket %q is not a socket: write for example unix:///run/containerd/containerd.sock", o.socket)
	case o.metricsAddress != "0" && addressErr != nil:
		return usagef("--metrics-bind-address %q is not a valid address: %v: use host:port, or 0", o.metricsAddress, addressErr)
	case o.pulls < 0:
		return usagef("--max-concurrent-pulls must not be negative, but got %d", o.pulls)
	case o.fillPercent < 0 || o.fillPercent > 100:
		return usagef("--image-fs-limit is a percentage from 0 to 100, but got %d", o.fillPercent)
	case len(validation.IsDNS1123Label(o.secretNamespace)) > 0:
		return usagef("--pull-secret-namespace %q is not the name of a namespace: use lower-case letters, digits and '-'", o.secretNamespace)
	case (o.pluginConfig == "") != (o.pluginDir == ""):
		return usagef("--credential-provider-config and --credential-provider-bin-dir must be set together")
	}
	return o.completeAPI()
}

// completeAPI is complete for the API of the node.
func (o *options) completeAPI() error {
	if o.listen == "0" {
		if o.openYurt {
			return usagef("--openyurt-api adds routes to the API of the node, which --listen 0 disables: set only one of them")
		}
		return nil
	}
	host, _, err := net.SplitHostPort(o.listen)
	o.listenHost = host
	loopback := rest.IsLoopback(host)
	switch {
	case err != nil:
		return usagef("--listen %q is not a valid address: %v: use host:port, or 0", o.listen, err)
	case (o.certFile == "") != (o.keyFile == ""):
		return usagef("--tls-cert-file and --tls-private-key-file must be set together")
	case !loopback && o.certFile == "":
		return usagef("--listen %s can be reached from other machines, and tokens would go over the network for all to read: "+
			"give --tls-cert-file and --tls-private-key-file, or listen on 127.0.0.1", o.listen)
	case !loopback && o.openYurt:
		return usagef("--listen %s can be reached from other machines, and the routes of --openyurt-api have no authentication: "+
			"listen on 127.0.0.1, or remove --openyurt-api", o.listen)
	case o.stateDir == "":
		return usagef("--state-dir is empty: the API of the node needs a directory of its own, or --listen 0")
	}
	return o.loadCertificate()
}
