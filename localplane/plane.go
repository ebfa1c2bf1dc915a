// SPDX-License-Identifier: Apache-2.0

package localplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"everynode.dev/everynode/localplane/internal/control"
	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/install"
	"everynode.dev/everynode/localplane/internal/nodes"
	"everynode.dev/everynode/localplane/simkubelet"
)

// Plane is a running control plane: one that this process started, or one that it is attached to.
type Plane struct {
	home    home.Home
	control control.Plane

	// mu guards config and client, which are created on first use.
	mu     sync.Mutex
	config *rest.Config
	client kubernetes.Interface

	// own is nil for a plane that another process runs.
	own *owner
}

// Attach connects to the plane that another process runs in dir.
func Attach(dir string) (*Plane, error) {
	if dir == "" {
		dir = DefaultDir
	}
	h, err := home.At(dir)
	if err != nil {
		return nil, err
	}
	if _, running := h.Holder(); !running {
		message := fmt.Sprintf("no plane runs in %s: start one with `localplane up --dir %s`", h.Dir(), dir)
		if others := h.Running(filepath.Dir(os.Getenv(clientcmd.RecommendedConfigPathEnvVar))); len(others) > 0 {
			message += fmt.Sprintf(", or name one that runs: --dir %s", strings.Join(others, ", --dir "))
		}
		return nil, errors.New(message)
	}
	return &Plane{home: h, control: control.NewClient(h.Socket())}, nil
}

// Dir returns the plane's directory, as an absolute path.
func (p *Plane) Dir() string { return p.home.Dir() }

// AuditLog returns the path of the audit log (Kubernetes.Audit), with one event of audit.k8s.io/v1 per line.
func (p *Plane) AuditLog() string { return p.home.AuditLog() }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (p *Plane) Kubeconfig() string { return p.home.Kubeconfig() }

// Log returns the path of a component's log file.
func (p *Plane) Log(component string) string { return p.home.Log(component) }

// RESTConfig returns the configuration of the administrator, without a rate limit. Each call returns a copy. It is nil
// only for an attached plane that is still starting.
func (p *Plane) RESTConfig() *rest.Config {
	if _, err := p.connect(); err != nil {
		return nil
	}
	return rest.CopyConfig(p.config)
}

// connect returns the client; the kubeconfig must exist.
func (p *Plane) connect() (kubernetes.Interface, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		return p.client, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w (is the plane still starting?)", p.Kubeconfig(), err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing a client: %w", err)
	}
	p.config, p.client = config, client
	return client, nil
}

// AddNodes adds n simulated nodes and returns their names. They are Ready soon afterwards.
func (p *Plane) AddNodes(ctx context.Context, n int) ([]string, error) {
	if n < 1 {
		return nil, usage("adding %d nodes: at least 1", n)
	}
	client, err := p.connect()
	if err != nil {
		return nil, err
	}
	version, err := versionOf(ctx, client)
	if err != nil {
		return nil, p.explain(ctx, err)
	}
	names, err := nodes.Add(ctx, client, n, version)
	return names, p.explain(ctx, err)
}

// versionOf returns the Kubernetes version of a plane, which is also that of its simulated kubelets.
func versionOf(ctx context.Context, client kubernetes.Interface) (string, error) {
	info, err := client.Discovery().ServerVersionWithContext(ctx)
	if err != nil {
		return "", fmt.Errorf("asking the API server for its version: %w", err)
	}
	return info.GitVersion, nil
}

// RemoveNode deletes a node, as an administrator does with a node that will not come back.
func (p *Plane) RemoveNode(ctx context.Context, name string) error {
	if p.isReal(name) {
		return usage("removing node %s: it is a real one, which can be killed (`node kill %s`); its kubelet would only register it again", name, name)
	}
	client, err := p.connect()
	if err != nil {
		return err
	}
	return p.explain(ctx, nodes.Remove(ctx, client, name))
}

// CutNode disconnects a node: it is NotReady after the grace period, and the pods of a simulated one do not change any
// more.
func (p *Plane) CutNode(ctx context.Context, name string) error {
	if p.isReal(name) {
		return p.setLink(ctx, name, false)
	}
	client, err := p.connect()
	if err != nil {
		return err
	}
	return p.explain(ctx, nodes.SetConnected(ctx, client, name, false))
}

// HealNode undoes CutNode.
func (p *Plane) HealNode(ctx context.Context, name string) error {
	if p.isReal(name) {
		return p.setLink(ctx, name, true)
	}
	client, err := p.connect()
	if err != nil {
		return err
	}
	return p.explain(ctx, nodes.SetConnected(ctx, client, name, true))
}

// NodeAPI is the address of the API of a node, and the file with the token of the node's owner.
type NodeAPI struct {
	Address   string `json:"address"`
	TokenFile string `json:"tokenFile"`
}

// ServeNodeAPI serves the API of a node at an address of this machine, such as 127.0.0.1:10267, or 127.0.0.1:0 for any
// free port, and returns when it is served. This persists across restarts, until EndNodeAPI. A node that is cut off
// serves its API too.
func (p *Plane) ServeNodeAPI(ctx context.Context, name, listen string) (NodeAPI, error) {
	if p.isReal(name) {
		return NodeAPI{}, usage("serving the API of node %s: it is a real one, whose agent serves it there: `node exec %s -- curl 127.0.0.1:10267/pods`", name, name)
	}
	if err := simkubelet.CheckAPIAddress(listen); err != nil {
		return NodeAPI{}, usage("%v", err)
	}
	client, err := p.connect()
	if err != nil {
		return NodeAPI{}, err
	}
	if err := nodes.SetAPI(ctx, client, name, listen); err != nil {
		return NodeAPI{}, p.explain(ctx, err)
	}
	api := NodeAPI{TokenFile: simkubelet.APITokenFile(p.home.NodeAPIs(), name)}
	err = poll(ctx, apiTimeout, func(context.Context) (bool, error) {
		address, err := simkubelet.ReadAPIAddress(p.home.NodeAPIs(), name, listen)
		api.Address = address
		return err == nil && address != "" && answers(address), err
	})
	if err != nil { // the caller gets an error, so the request is withdrawn
		return NodeAPI{}, errors.Join(fmt.Errorf("waiting for the API of node %s: %w", name, p.explain(ctx, err)), p.EndNodeAPI(ctx, name))
	}
	return api, nil
}

// apiTimeout is the timeout for the component kwok to serve an API.
const apiTimeout = 10 * time.Second

// answers reports whether a server listens at an address.
func answers(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}

// EndNodeAPI undoes ServeNodeAPI.
func (p *Plane) EndNodeAPI(ctx context.Context, name string) error {
	client, err := p.connect()
	if err != nil {
		return err
	}
	return p.explain(ctx, nodes.SetAPI(ctx, client, name, ""))
}

// KillComponent kills a component. It stays down until StartComponent.
func (p *Plane) KillComponent(ctx context.Context, name string) error {
	return p.control.KillComponent(ctx, name)
}

// StartComponent starts a component, unless it runs, and waits until it is ready.
func (p *Plane) StartComponent(ctx context.Context, name string) error {
	return p.control.StartComponent(ctx, name)
}

// Install applies manifests of Everynode like those of the start (Options.Manifests), for example of another version.
// Objects that are only in the others are kept. Only the process that has started the plane can do that.
func (p *Plane) Install(ctx context.Context, manifests []fs.FS) error {
	if p.own == nil {
		return usage("installing on the plane in %s: another process runs it", p.Dir())
	}
	installer, err := install.New(p.RESTConfig())
	if err != nil {
		return err
	}
	_, err = p.own.apply(ctx, installer, manifests)
	return p.explain(ctx, err)
}

// Stop ends everything that the plane has started, and returns when it has ended. The state stays in the directory.
func (p *Plane) Stop(ctx context.Context) error {
	if p.own == nil {
		return p.stopRemote(ctx)
	}
	return p.own.shutdown()
}

// Done is closed when the plane has stopped. It is nil for an attached plane.
func (p *Plane) Done() <-chan struct{} {
	if p.own == nil {
		return nil
	}
	return p.own.done
}
