// SPDX-License-Identifier: Apache-2.0

// Package dashboard implements the command that shows the fleet as a picture in the browser.
//
// It watches the cluster with the rights of the user, and serves a page (static, built from web), JSON, and server-sent events.
//
// Vocabulary: a page is the list of sets, one set or one node; a frame is a page at one moment; a hub makes the frames of a page while it is
// viewed; a viewer is a window that follows a page; a recording contains the states of the nodes of a set in the last hours.
//
// Rule: it shows what the other commands show. It reads with inspect.WatchAll, decides with the manager's decision, and takes its texts from view
// and inspect. It reads no Secrets, and keeps nothing for a viewer but the last frame that the viewer got. Without a viewer no frames are made;
// only the recorder continues, for sets whose page was opened, within its limits. A server serves one user with one credential, so what it keeps
// was read with the rights of the user who gets it: kubectl everynode dashboard has one server, and in the cluster the portal has one for each
// token.
package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
)

const long = `Show the fleet as a picture in the browser: all daemon sets with their rollouts; one set with a cell for each node, coloured by verdict, with the waves
of its rollout policy, its revisions, conditions and events; and one node with all sets on it. The page follows the cluster.

It prints the URL of the page, with a token in it, and serves until you end it. It reads with your own rights, and never reads Secrets. It shows the sets of all
namespaces if you may watch them, otherwise those of your namespace; --namespace selects one.

A user who has the URL acts with your rights, so it listens on the loopback interface only.

` + options.ExitText

const example = `  # Show the fleet, and open the page in the browser
  kubectl everynode dashboard

  # Only print the URL
  kubectl everynode dashboard --open=false

  # The sets of one namespace, on another port
  kubectl everynode dashboard -n kube-system --listen 127.0.0.1:9000`

// asked is a parsed command line.
type asked struct {
	*options.Options
	listen, expose string
	open           bool
	verbs          func(*options.Options) *cobra.Command
}

// New returns the command dashboard. verbs makes the whole program.
func New(o *options.Options, verbs func(*options.Options) *cobra.Command) *cobra.Command {
	a := &asked{Options: o, verbs: verbs}
	cmd := &cobra.Command{
		Use:               "dashboard",
		Short:             "Show the fleet as a picture in the browser",
		Long:              long,
		Example:           example,
		Args:              options.Arguments(0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&a.listen, "listen", "127.0.0.1:8790", "The address and port of the page; port 0 means any free port.")
	cmd.Flags().StringVar(&a.expose, "expose-because", "", "Why --listen names an address that other machines can reach, without TLS; printed at the start.")
	cmd.Flags().BoolVar(&a.open, "open", true, "Open the page in the browser, if the output is a terminal.")
	for _, flag := range []string{"listen", "expose-because"} {
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions); err != nil {
			panic(err) // the flag does not exist: every test that creates a command finds this
		}
	}
	return cmd
}

// check validates the address.
func (a *asked) check() error {
	if a.ForMachines() {
		return options.Usagef("the dashboard prints one line, with the URL: leave --output %s out", a.Output)
	}
	host, _, err := net.SplitHostPort(a.listen)
	if err != nil {
		return options.Usagef("--listen %q is not an address with a port, such as 127.0.0.1:8790: %w", a.listen, err)
	}
	ip := net.ParseIP(host)
	if loopback := host == "localhost" || ip != nil && ip.IsLoopback(); !loopback && a.expose == "" {
		return options.Usagef("--listen %s lets other machines reach the page, without TLS, and every user who has the URL acts with your rights: "+
			"listen on 127.0.0.1, or write why you need it in --expose-because", a.listen)
	}
	if host != "localhost" && ip == nil {
		return options.Usagef("--listen %s names no address: write an IP address, or localhost", a.listen)
	}
	return nil
}

const (
	// readPatience is how long a browser may take to send a request.
	readPatience = 10 * time.Second
	// idlePatience is how long a connection without a request is kept.
	idlePatience = 2 * time.Minute
	// shutdownPatience is how long requests may take to end with the program.
	shutdownPatience = 2 * time.Second
	// largestHeader is the maximum size of the headers of a request.
	largestHeader = 32 << 10
)

func (a *asked) run(ctx context.Context) error {
	if err := a.check(); err != nil {
		return err
	}
	clients, err := a.Clients()
	if err != nil {
		return err
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", a.listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w (choose another port with --listen; port 0 means any free one)", a.listen, err)
	}
	defer func() { _ = listener.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	guard := newGuard(port)
	s, err := a.start(ctx, clients)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was ended while it read the cluster
		}
		return err
	}
	defer s.fleet.Wait()
	defer cancel()
	url := "http://" + listener.Addr().String() + "/#token=" + guard.token
	if _, err := fmt.Fprintln(a.Out, url); err != nil {
		return fmt.Errorf("printing the URL: %w", err)
	}
	if a.expose != "" {
		a.Note("other machines can reach the page, without TLS, because: %s", a.expose)
	}
	if a.open && a.Terminal() {
		closing := a.browse(ctx, url)
		defer closing()
	}
	return serve(ctx, listener, newWeb(ctx, s.handler(guard)))
}

// start watches the cluster.
func (a *asked) start(ctx context.Context, clients *options.Clients) (*server, error) {
	s := newServer(ctx, a.Options, clients)
	s.verbs, s.namespace, s.context = a.verbs, a.namespace(ctx, clients), contextName(a.Options)
	s.connection = connectionOf(a.Options)
	return s, s.watch(ctx)
}

// namespace returns the namespace to show, empty for all.
func (a *asked) namespace(ctx context.Context, c *options.Clients) string {
	if given := *a.ConfigFlags.Namespace; given != "" {
		return given
	}
	if err := inspect.MayWatch(ctx, c, metav1.NamespaceAll); err != nil {
		a.Note("this shows namespace %s only: %v", c.Namespace, err)
		return c.Namespace
	}
	return metav1.NamespaceAll
}

// contextName returns the name of the context of the kubeconfig; empty if there is none.
func contextName(o *options.Options) string {
	if name := *o.ConfigFlags.Context; name != "" {
		return name
	}
	if o.Given != nil {
		return ""
	}
	raw, err := o.ConfigFlags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

// newWeb returns a server of pages.
func newWeb(ctx context.Context, handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: readPatience, IdleTimeout: idlePatience, MaxHeaderBytes: largestHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
}

// serve answers requests until ctx ends.
func serve(ctx context.Context, listener net.Listener, web *http.Server) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownPatience)
		defer cancel()
		if web.Shutdown(bounded) != nil {
			_ = web.Close() // what is left has had its time
		}
	}()
	begin := web.Serve
	if web.TLSConfig != nil {
		begin = func(l net.Listener) error { return web.ServeTLS(l, "", "") }
	}
	if err := begin(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page: %w", err)
	}
	<-ended
	return nil
}
