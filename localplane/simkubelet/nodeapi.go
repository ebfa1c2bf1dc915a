// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent"
	"everynode.dev/everynode/internal/agent/kube"
	"everynode.dev/everynode/internal/agent/rest"
	"everynode.dev/everynode/internal/agent/store"
)

// savePods is how often the pods of a node that serves its API are saved to its disk, if they have changed.
const savePods = 5 * time.Second

// errCut is the error of every request to the API server of a node that is cut off.
var errCut = errors.New("no route to the API server: the node is cut")

// nodeAPI is the API of one simulated node: that of the agent, with the plane's pods and with the node's disk. While
// the node is cut off, it reaches no API server, and has the pods of the time when it was cut off.
type nodeAPI struct {
	kubelet *Kubelet
	node    string
	disk    *store.Store
	client  *kube.Client
	ahead   *agent.Prepuller
	api     *rest.API
	ring    chan struct{}

	mu       sync.Mutex
	identity Identity
}

// newNodeAPI opens the disk of a node.
func newNodeAPI(a *apis, node string) (*nodeAPI, error) {
	dir := filepath.Join(a.Dir, node)
	n := &nodeAPI{kubelet: a.kubelet, node: node, ring: make(chan struct{}, 1)}
	config := restclient.AnonymousClientConfig(a.Config)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return asAgent{bearer{next}, n} })
	var err error
	if n.client, err = kube.New(config); err != nil {
		return nil, err
	}
	n.disk, err = store.Open(store.Options{Directory: dir, Node: node, Say: func(m string) { a.kubelet.Log.Warn(m) }})
	if err != nil {
		return nil, err
	}
	token, err := agent.LocalToken(APITokenFile(a.Dir, node))
	if err != nil {
		return nil, errors.Join(err, n.disk.Close())
	}
	n.ahead = agent.NewPrepuller(n.client, n.Pods, n.ringPulls)
	n.api = rest.New(rest.Options{
		Node: node, Pods: n, Cluster: simCluster{n.client, n}, Decisions: n.disk, OpenYurt: a.OpenYurt, Token: token,
		Now: n.kubelet.Clock.Now, Event: n.recordEvent,
	})
	return n, nil
}

// begin serves until the returned function is called.
func (n *nodeAPI) begin(ctx context.Context, listener net.Listener) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	server := n.api.Server()
	wg := sync.WaitGroup{}
	wg.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			n.kubelet.Log.Warn("serving the API of a node", "node", n.node, "err", err)
		}
	})
	wg.Go(func() { n.api.Run(ctx) })
	wg.Go(func() { n.ahead.Run(ctx) })
	wg.Go(func() { n.pull(ctx) })
	wg.Go(func() { n.save(ctx) })
	return func() {
		cancel()
		_ = server.Close() // a client retries after a cancelled request
		wg.Wait()
		if err := n.disk.Close(); err != nil {
			n.kubelet.Log.Warn("closing the disk of a node", "node", n.node, "err", err)
		}
	}
}

func (n *nodeAPI) connected() bool {
	node := n.kubelet.node(n.node)
	return node != nil && Connected(node)
}

// connection is called when the node was cut off or reconnected.
func (n *nodeAPI) connection(connected bool) {
	if !connected {
		n.savePods() // the node has these pods from now on
	}
	n.ahead.Notify()
}

// Pods implements rest.Pods.
func (n *nodeAPI) Pods() ([]*v1.Pod, bool, error) {
	if !n.connected() {
		return n.disk.Pods()
	}
	pods, err := n.livePods()
	return pods, true, err
}

func (n *nodeAPI) livePods() ([]*v1.Pod, error) {
	objects, err := n.kubelet.pods.GetIndexer().ByIndex(byNode, n.node)
	if err != nil {
		return nil, fmt.Errorf("looking up the pods of a node: %w", err)
	}
	pods := make([]*v1.Pod, 0, len(objects))
	for _, obj := range objects {
		pods = append(pods, obj.(*v1.Pod))
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return pods, nil
}

func (n *nodeAPI) savePods() {
	pods, err := n.livePods()
	if err == nil {
		err = n.disk.SavePods(pods)
	}
	if err != nil {
		n.kubelet.Log.Warn("keeping the pods of a node", "node", n.node, "err", err)
	}
}

// save saves the pods to the disk of the node, for a time without connection, or a restart of this process.
func (n *nodeAPI) save(ctx context.Context) {
	ticker := n.kubelet.Clock.NewTicker(savePods)
	defer ticker.Stop()
	for {
		if n.connected() {
			n.savePods()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

func (n *nodeAPI) ringPulls() {
	select {
	case n.ring <- struct{}{}:
	default:
	}
}

// pull simulates the pulls that pods request, in the image store of the node. They have their own queue next to that of
// the NodeImage.
func (n *nodeAPI) pull(ctx context.Context) {
	queue := NewAgent(&v1beta1.NodeImageStatus{})
	of := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: n.node}}
	timer := n.kubelet.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.ring:
		case <-timer.C():
		}
		node := n.kubelet.node(n.node)
		if node == nil || !Connected(node) {
			timer.Reset(lookForPulls)
			continue
		}
		ns := n.kubelet.nodeState(node)
		ns.mu.Lock()
		now := n.kubelet.Clock.Now()
		states, wake := queue.StepFor(AgentInput{Now: now, Image: of, Store: ns.images, Profile: n.kubelet.Profile}, n.ahead.Wants())
		ns.mu.Unlock()
		n.ahead.Observe(states)
		if !wake.IsZero() {
			timer.Reset(max(wake.Sub(now), time.Millisecond))
		}
	}
}

// recordEvent records an event about a pod.
func (n *nodeAPI) recordEvent(pod *v1.Pod, kind, reason, message string) {
	n.kubelet.Log.Info(message, "node", n.node, "pod", pod.Namespace+"/"+pod.Name, "reason", reason, "kind", kind)
}

// token returns the token of the agent of the node.
func (n *nodeAPI) token(ctx context.Context) (string, error) {
	node := n.kubelet.node(n.node)
	if node == nil || !Connected(node) {
		return "", errCut
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	identity, err := n.kubelet.Agents.Identify(ctx, n.identity, node, n.kubelet.Clock.Now())
	if err != nil {
		return "", err
	}
	n.identity = identity
	return identity.token, nil
}

// asAgent sends requests with the identity of the agent of a node, while the node is connected.
type asAgent struct {
	bearer
	node *nodeAPI
}

func (a asAgent) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := a.node.token(request.Context())
	if err != nil {
		return nil, err
	}
	return a.bearer.RoundTrip(request.WithContext(context.WithValue(request.Context(), tokenKey{}, token)))
}

// simCluster is the API server client of a simulated node.
type simCluster struct {
	*kube.Client
	node *nodeAPI
}

// Connected implements rest.Cluster.
func (s simCluster) Connected(ctx context.Context) bool {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.node.connected() && s.Answers(ctx) == nil
}
