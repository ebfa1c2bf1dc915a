// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Clients are clients of one cluster, with the rights of the user.
type Clients struct {
	Kubernetes kubernetes.Interface
	Dynamic    dynamic.Interface
	Discovery  discovery.DiscoveryInterface
	Config     *rest.Config
	// Namespace is the namespace of the flag or of the context.
	Namespace string
}

// A user waits for the results, so requests are not rate-limited as in a controller; the API server limits them.
const (
	qps   = 50
	burst = 300
)

// Clients returns clients of the cluster that flags, KUBECONFIG or the pod determine.
func (o *Options) Clients() (*Clients, error) {
	if o.Given != nil {
		return o.Given, nil
	}
	namespace, _, err := o.ConfigFlags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config, err := o.ConfigFlags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to work on: %w (give --kubeconfig or --context, or set KUBECONFIG)", err)
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.UserAgent = qps, burst, FieldManager+"/"+o.Version
	return NewClients(config, namespace)
}

// NewClients returns clients of the cluster of config.
func NewClients(config *rest.Config, namespace string) (*Clients, error) {
	protobuf := rest.CopyConfig(config)
	protobuf.AcceptContentTypes, protobuf.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	typed, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Clients{Kubernetes: typed, Dynamic: untyped, Discovery: typed.Discovery(), Config: config, Namespace: namespace}, nil
}

// ClientsOf returns clients of a cluster that have the rights of a bearer token, and no others.
func (o *Options) ClientsOf(token string, cluster *rest.Config) (*Clients, error) {
	config := rest.AnonymousClientConfig(cluster)
	config.BearerToken = token
	config.QPS, config.Burst, config.UserAgent = qps, burst, FieldManager+"/"+o.Version
	return NewClients(config, "")
}
