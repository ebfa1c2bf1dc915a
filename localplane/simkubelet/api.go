// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// APIListenAnnotation on a node is the address at which its API is served, such as 127.0.0.1:10267; with port 0, any
// free port. Without the annotation it is not served, so that nodes without requests need no resources.
const APIListenAnnotation = "localplane.everynode.dev/api-listen"

// APIOptions are the options for the APIs of nodes. Each has a directory with the name of its node below Dir.
type APIOptions struct {
	Dir string
	// Config is the configuration of the API server client; its credentials are used only to request the tokens of
	// agents.
	Config *rest.Config
	// OpenYurt enables the routes of OpenYurt.
	OpenYurt bool
}

// Files in the directory of a node, next to its disk.
const (
	tokenFile   = "token"
	addressFile = "address"
)

// APITokenFile returns the file with the token of the owner of a node.
func APITokenFile(dir, node string) string { return filepath.Join(dir, node, tokenFile) }

// ReadAPIAddress returns the address of the API of a node if it is served as requested, otherwise "". If it cannot be
// served, it returns an error.
func ReadAPIAddress(dir, node, wish string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, node, addressFile))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	of, rest, _ := strings.Cut(string(data), "\n")
	address, failure, _ := strings.Cut(rest, "\n")
	switch {
	case err != nil:
		return "", fmt.Errorf("looking for the API of node %s: %w", node, err)
	case of != wish:
		return "", nil
	case address == "":
		return "", fmt.Errorf("serving the API of node %s: %s", node, strings.TrimSpace(failure))
	}
	return address, nil
}

// CheckAPIAddress returns an error unless the address is a loopback address.
func CheckAPIAddress(listen string) error {
	address, err := netip.ParseAddrPort(listen)
	if err != nil || !address.Addr().IsLoopback() {
		return fmt.Errorf("%q is not an address of this machine alone: write for example 127.0.0.1:10267", listen)
	}
	return nil
}

// writeAPIAddress stores the address of a request, or its error.
func writeAPIAddress(dir, wish, address string, failure error) error {
	text := ""
	if failure != nil {
		text = failure.Error()
	}
	file := filepath.Join(dir, addressFile)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(file+".new", []byte(wish+"\n"+address+"\n"+text+"\n"), 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("writing down the address: %w", err)
	}
	return nil
}

// apis are the served APIs of nodes.
type apis struct {
	kubelet *Kubelet
	APIOptions
	changed chan struct{}

	mu     sync.Mutex
	served map[string]*servedAPI
}

// servedAPI is an API that is served, or that could not be. It is replaced when the node or the request changes.
type servedAPI struct {
	*nodeAPI // nil if it could not be served
	wish     string
	node     string // the UID of the node
	end      func()
}

func newAPIs(k *Kubelet, o APIOptions) (*apis, error) {
	a := &apis{kubelet: k, APIOptions: o, changed: make(chan struct{}, 1), served: map[string]*servedAPI{}}
	ring := func() {
		select {
		case a.changed <- struct{}{}:
		default:
		}
	}
	_, nodeErr := k.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if node, ok := obj.(*v1.Node); ok && node.Annotations[APIListenAnnotation] != "" {
				ring()
			}
		},
		UpdateFunc: func(old, obj any) {
			before, after := old.(*v1.Node), obj.(*v1.Node)
			if before.Annotations[APIListenAnnotation] != after.Annotations[APIListenAnnotation] {
				ring()
			}
			if served := a.of(after.Name); served != nil && Connected(before) != Connected(after) {
				served.connection(Connected(after))
			}
		},
		DeleteFunc: func(any) { ring() },
	})
	tell := func(obj any) {
		if pod, ok := obj.(*v1.Pod); ok {
			if served := a.of(pod.Spec.NodeName); served != nil {
				served.ahead.Notify()
			}
		}
	}
	_, podErr := k.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, obj any) { tell(obj) }, DeleteFunc: tell,
	})
	return a, errors.Join(nodeErr, podErr)
}

// of returns the API of a node, or nil.
func (a *apis) of(node string) *nodeAPI {
	a.mu.Lock()
	defer a.mu.Unlock()
	if served := a.served[node]; served != nil {
		return served.nodeAPI
	}
	return nil
}

// tryAgain is the retry interval for APIs that could not be served, for example because the port is in use.
const tryAgain = time.Second

// run serves the APIs until ctx ends.
func (a *apis) run(ctx context.Context) {
	defer a.endAll()
	for {
		var again <-chan time.Time
		if !a.step(ctx) {
			again = a.kubelet.Clock.After(tryAgain)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-a.changed:
		}
	}
}

// step starts and stops APIs as requested, and reports whether all could be served.
func (a *apis) step(ctx context.Context) (all bool) {
	wanted := map[string]*v1.Node{}
	for _, obj := range a.kubelet.nodes.GetStore().List() {
		if node := obj.(*v1.Node); node.Annotations[APIListenAnnotation] != "" {
			wanted[node.Name] = node
		}
	}
	a.mu.Lock()
	old := map[string]*servedAPI{}
	for name, served := range a.served {
		node := wanted[name]
		if node == nil || served.nodeAPI == nil || served.node != string(node.UID) || served.wish != node.Annotations[APIListenAnnotation] {
			old[name] = served
			delete(a.served, name)
		}
	}
	a.mu.Unlock()
	for name, served := range old {
		served.end()
		if wanted[name] == nil {
			a.forget(name)
		}
	}
	all = true
	for name, node := range wanted {
		if a.of(name) == nil {
			all = a.serve(ctx, node) && all
		}
	}
	return all
}

// forget removes the address of an API that is no longer served. Token and decisions stay, as on a node whose agent has
// ended.
func (a *apis) forget(node string) {
	if err := os.Remove(filepath.Join(a.Dir, node, addressFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		a.kubelet.Log.Warn("removing the address of an API", "node", node, "err", err)
	}
}

// serve serves the API of a node, or stores the error.
func (a *apis) serve(ctx context.Context, node *v1.Node) bool {
	wish := node.Annotations[APIListenAnnotation]
	dir := filepath.Join(a.Dir, node.Name)
	served := &servedAPI{wish: wish, node: string(node.UID), end: func() {}}
	listener, err := a.listen(node.Name, wish)
	address := ""
	if err == nil {
		address = listener.Addr().String()
		if served.nodeAPI, err = newNodeAPI(a, node.Name); err == nil {
			served.end = served.begin(ctx, listener)
		} else {
			err = errors.Join(err, listener.Close())
			address = ""
		}
	}
	if err != nil {
		a.kubelet.Log.Warn("serving the API of a node", "node", node.Name, "err", err)
	}
	a.mu.Lock()
	a.served[node.Name] = served
	a.mu.Unlock()
	if err := writeAPIAddress(dir, wish, address, err); err != nil { // the next attempt may report it
		a.kubelet.Log.Warn("serving the API of a node", "node", node.Name, "err", err)
	}
	return err == nil
}

// listen listens at the requested address. If any port is allowed, it prefers the previous one.
func (a *apis) listen(node, wish string) (net.Listener, error) {
	if err := CheckAPIAddress(wish); err != nil {
		return nil, err
	}
	if before, err := ReadAPIAddress(a.Dir, node, wish); err == nil && before != "" && strings.HasSuffix(wish, ":0") {
		if listener, err := net.Listen("tcp", before); err == nil {
			return listener, nil
		}
	}
	return net.Listen("tcp", wish)
}

func (a *apis) endAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, served := range a.served {
		served.end()
	}
	clear(a.served)
}
