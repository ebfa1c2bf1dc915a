// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/agent/kube"
	"everynode.dev/everynode/internal/agent/rest"
	nodestore "everynode.dev/everynode/internal/agent/store"
)

// apiConnections is the maximum number of client connections.
const apiConnections = 64

// tokenFile is the file name of the token of the node in the state directory.
const tokenFile = "token"

// nodeAPI is the API of the node with its parts.
type nodeAPI struct {
	disk       *nodestore.Store
	client     *kube.Client
	pods       *ownPods
	prepull    *prepuller
	restarts   *restarter
	api        *rest.API
	background sync.WaitGroup
}

// nodeCluster is the API server client of the API of the node.
type nodeCluster struct {
	*kube.Client
	*connectivity
}

// newNodeAPI opens the store and reads the token; it does not serve yet. notify is called when there are new images to
// pull.
func newNodeAPI(o *options, client *kube.Client, report *reporter, notify func()) (*nodeAPI, error) {
	n := &nodeAPI{client: client}
	var err error
	n.disk, err = nodestore.Open(nodestore.Options{Directory: o.stateDir, Node: o.node, Say: report.storeSetAside})
	if err != nil {
		return nil, fmt.Errorf("%w (set another --state-dir, or --listen 0 to disable the API)", err)
	}
	token, err := localToken(o.tokenPath())
	if err == nil {
		n.prepull = newPrepuller(client, notify)
		n.restarts = newRestarter(func() ([]*corev1.Pod, bool) { return n.pods.live() })
		n.pods, err = newOwnPods(client, o.node, n.disk, func() { n.prepull.notify(); n.restarts.notify() })
	}
	if err != nil {
		return nil, errors.Join(err, n.disk.Close())
	}
	n.prepull.pods = n.pods.Pods
	cluster := nodeCluster{client, &connectivity{probe: client.Answers, now: time.Now, report: report.connected}}
	n.api = rest.New(rest.Options{
		Node: o.node, Pods: n.pods, Cluster: cluster, Decisions: n.disk, OpenYurt: o.openYurt, Token: token, SharedAudience: o.allNodes,
		Host: o.isHost, Now: time.Now, Event: report.podEvent, Answered: report.answered,
	})
	return n, nil
}

// begin serves requests, watches pods and executes decisions until ctx ends. The returned function waits for the end.
func (n *nodeAPI) begin(ctx context.Context, o *options) (func(), error) {
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serving the API of the node: %w (set another --listen, or 0 to disable it)", err), n.disk.Close())
	}
	listener = netutil.LimitListener(listener, apiConnections)
	if o.certificate != nil {
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{*o.certificate}, MinVersion: tls.VersionTLS12})
	}
	server := n.api.Server()
	klog.InfoS("Serving the API of the node", "address", listener.Addr().String(), "tls", o.certificate != nil, "tokenFile", o.tokenPath(),
		"openyurtRoutes", o.openYurt)
	if o.openYurt {
		klog.InfoS("The OpenYurt routes need no authentication: every client that can reach this address can upgrade pods of this node")
	}
	if o.allNodes {
		klog.InfoS("The agent accepts tokens for all nodes: a compromised node can use a token that it has received at this node", "flag", "--accept-shared-audience")
	}
	n.background.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.ErrorS(err, "Serving the API of the node")
		}
	})
	n.background.Go(func() { n.pods.run(ctx) })
	n.background.Go(func() { n.prepull.run(ctx) })
	n.background.Go(func() { n.restarts.run(ctx) })
	n.background.Go(func() { n.api.Run(ctx) })
	return func() {
		_ = server.Close() // clients retry
		n.background.Wait()
		if err := n.disk.Close(); err != nil {
			klog.ErrorS(err, "Closing the store")
		}
	}, nil
}

// tokenPath returns the file with the token of the node.
func (o *options) tokenPath() string {
	if o.tokenFile != "" {
		return o.tokenFile
	}
	return filepath.Join(o.stateDir, tokenFile)
}

// isHost reports whether a Host header may have this host: this machine, the host that the agent listens on, or a host
// of the certificate.
func (o *options) isHost(host string) bool {
	if rest.IsLoopback(host) || o.listenHost != "" && host == o.listenHost {
		return true
	}
	if o.certificate == nil {
		return false
	}
	leaf := o.certificate.Leaf
	return leaf != nil && leaf.VerifyHostname(bracketIPv6(host)) == nil
}

// bracketIPv6 returns a host in the form that crypto/x509 expects.
func bracketIPv6(host string) string {
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return "[" + host + "]"
	}
	return host
}

// loadCertificate reads the certificate of the API of the node.
func (o *options) loadCertificate() error {
	if o.certFile == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(o.certFile, o.keyFile)
	if err != nil {
		return usagef("--tls-cert-file and --tls-private-key-file cannot be used: %v", err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return usagef("--tls-cert-file holds no certificate: %v", err)
		}
	}
	o.certificate = &pair
	return nil
}
