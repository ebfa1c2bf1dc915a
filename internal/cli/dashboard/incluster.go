// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"everynode.dev/everynode/internal/cli/options"
)

// InCluster is the name of the command that serves the dashboard in the cluster.
const InCluster = "dashboard"

// requestPatience is the timeout of a request that is not a stream.
const requestPatience = 5 * time.Minute

// inCluster is the command line of the dashboard in the cluster.
type inCluster struct {
	*options.Options
	verbs             func(*options.Options) *cobra.Command
	listen            string
	hosts             []string
	certFile, keyFile string
	apiServer, caFile string
	sessions          int
	// most is the maximum number of connections; 0 is mostConnections.
	most int
}

// NewInCluster returns the command that serves the dashboard to many users, each with the rights of their own token. verbs makes the whole program kubectl everynode.
func NewInCluster(o *options.Options, verbs func(*options.Options) *cobra.Command) *cobra.Command {
	a := &inCluster{Options: o, verbs: verbs}
	cmd := &cobra.Command{
		Use:         InCluster,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "everynode-manager " + InCluster},
		Short:       "Serves the dashboard in the cluster, over TLS.",
		Long: "everynode-manager dashboard serves the dashboard of kubectl everynode to many users. Each request to the API server\n" +
			"has the bearer token of the user: from the header Authorization, which a proxy adds, or from the page on which the\n" +
			"user signs in. The program itself has no token and needs no rights.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return options.Usagef("unexpected argument %q: everything is given by flags", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context()) },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return options.Usagef("%w", err) })
	fs := cmd.Flags()
	fs.StringVar(&a.listen, "listen", ":8443", "The address and port of the page.")
	fs.StringSliceVar(&a.hosts, "hosts", nil, "The host names under which browsers reach the page, each with its port if that is not 443, such as localhost:8443. Requests for other hosts are rejected.")
	fs.StringVar(&a.certFile, "tls-cert-file", "", "The certificate of the page. It is read again when it changes.")
	fs.StringVar(&a.keyFile, "tls-private-key-file", "", "The key of --tls-cert-file.")
	fs.StringVar(&a.apiServer, "api-server", "", "The URL of the API server. Without it, the one of the cluster in which the pod runs.")
	fs.StringVar(&a.caFile, "api-server-ca-file", "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "The certificate authority of the API server.")
	fs.IntVar(&a.sessions, "max-sessions", 10, "The maximum number of tokens that are served at a time; each needs as much memory as a dashboard on a user's machine.")
	return cmd
}

// check validates the command line.
func (a *inCluster) check() error {
	if a.apiServer == "" {
		host, port := a.Getenv("KUBERNETES_SERVICE_HOST"), a.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return options.Usagef("the API server is not known: run it in a pod, or set --api-server")
		}
		a.apiServer = "https://" + net.JoinHostPort(host, port)
	}
	_, _, addressErr := net.SplitHostPort(a.listen)
	switch {
	case addressErr != nil:
		return options.Usagef("--listen %q is not an address with a port, such as :8443: %w", a.listen, addressErr)
	case len(a.hosts) == 0:
		return options.Usagef("--hosts is missing: name the host under which browsers reach the page, such as everynode.example.com")
	case a.certFile == "" || a.keyFile == "":
		return options.Usagef("tokens are only taken over TLS: set --tls-cert-file and --tls-private-key-file")
	case !strings.HasPrefix(a.apiServer, "https://"):
		return options.Usagef("--api-server %q is not an https:// URL: tokens would go over the network for all to read", a.apiServer)
	case a.sessions < 1:
		return options.Usagef("--max-sessions must be at least 1, but got %d", a.sessions)
	}
	for i, host := range a.hosts {
		a.hosts[i] = strings.TrimSuffix(strings.ToLower(host), ":443")
		if !isHost(a.hosts[i]) {
			return options.Usagef("--hosts %q is not a host name, such as everynode.example.com or localhost:8443", host)
		}
	}
	return nil
}

// isHost reports whether a text is a host name or an address, with an optional port.
func isHost(text string) bool {
	name, port, err := net.SplitHostPort(text)
	if err != nil {
		name, port = text, "443"
	}
	number, err := net.LookupPort("tcp", port)
	return err == nil && number > 0 && (net.ParseIP(name) != nil || len(validation.IsDNS1123Subdomain(name)) == 0)
}

func (a *inCluster) run(ctx context.Context) error {
	if err := a.check(); err != nil {
		return err
	}
	pair, err := certwatcher.New(a.certFile, a.keyFile)
	if err != nil {
		return options.Usagef("--tls-cert-file and --tls-private-key-file cannot be used: %w", err)
	}
	cluster := &rest.Config{Host: a.apiServer, TLSClientConfig: rest.TLSClientConfig{CAFile: a.caFile}}
	if _, err := rest.HTTPClientFor(cluster); err != nil {
		return fmt.Errorf("--api-server-ca-file: %w", err)
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", a.listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w (set another --listen)", a.listen, err)
	}
	defer func() { _ = listener.Close() }()
	klog.InfoS("Serving the dashboard", "version", a.Version, "address", listener.Addr().String(), "hosts", a.hosts, "apiServer", a.apiServer, "maxSessions", a.sessions)
	return a.serve(ctx, listener, pair, func(token string) (*options.Clients, error) { return a.ClientsOf(token, cluster) })
}

// serve serves a portal until ctx ends, with the newest certificate.
func (a *inCluster) serve(ctx context.Context, listener net.Listener, pair *certwatcher.CertWatcher, clients func(token string) (*options.Clients, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := a.portal(ctx, clients)
	defer p.running.Wait()
	p.running.Go(func() {
		if err := pair.Start(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "A new certificate is not noticed before the program is restarted")
		}
	})
	defer cancel()
	web := newWeb(ctx, p.handler())
	web.WriteTimeout = requestPatience
	web.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.GetCertificate}
	limited := newConnections(listener, a.connections())
	web.ConnState = limited.note
	return serve(ctx, limited, web)
}

func (a *inCluster) connections() int {
	if a.most > 0 {
		return a.most
	}
	return mostConnections
}

// portal returns the portal for the users of a cluster.
func (a *inCluster) portal(ctx context.Context, clients func(token string) (*options.Clients, error)) *portal {
	return &portal{
		gate: gate{scheme: "https", elsewhere: "this host is not one of the dashboard: use another URL, or add the host to --hosts", ownHost: func(host string) bool {
			return slices.Contains(a.hosts, strings.TrimSuffix(strings.ToLower(host), ":443"))
		}},
		o: a.Options, verbs: a.verbs, clients: clients, ctx: ctx, reviews: newTurnsOf(turnLimits{mostReviews, mostReviewsOfClient, mostReviewsWaiting}), turns: newTurns(), pace: checkPace, most: a.sessions,
		sessions: map[sessionKey]*session{}, refused: map[[sha256.Size]byte]time.Time{},
	}
}
