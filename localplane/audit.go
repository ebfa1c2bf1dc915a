// SPDX-License-Identifier: Apache-2.0

package localplane

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"everynode.dev/everynode/localplane/internal/component"
)

// Store is the address of the plane's etcd, which keeps running while the API server is down.
type Store struct {
	// Endpoint is a URL; Authority, Certificate and Key are files.
	Endpoint, Authority, Certificate, Key string
}

// Store returns the address of the plane's etcd.
func (p *Plane) Store() (Store, error) {
	port, err := p.port(component.Etcd)
	if err != nil {
		return Store{}, err
	}
	file := func(name string) string { return filepath.Join(p.home.PKI(), name) }
	return Store{
		Endpoint: "https://" + net.JoinHostPort(component.Loopback, port), Authority: file(component.EtcdAuthority + ".crt"),
		Certificate: file(component.EtcdClient + ".crt"), Key: file(component.EtcdClient + ".key"),
	}, nil
}

// MetricsURL returns the URL of the metrics of a manager.
func (p *Plane) MetricsURL(manager string) (string, error) {
	port, err := p.port(component.MetricsPort(manager))
	if err != nil {
		return "", err
	}
	return "http://" + net.JoinHostPort(component.Loopback, port) + "/metrics", nil
}

// ManagerKubeconfig returns the kubeconfig of a manager, with exactly the rights of Everynode's manifests.
func (p *Plane) ManagerKubeconfig(manager string) string {
	return filepath.Join(p.home.PKI(), manager+".kubeconfig")
}

// port returns a port that the plane has chosen.
func (p *Plane) port(name string) (string, error) {
	state, err := p.home.LoadState()
	if err != nil {
		return "", err
	}
	port := state.Ports[name]
	if port == 0 {
		return "", fmt.Errorf("the plane in %s has no port called %s", p.Dir(), name)
	}
	return strconv.Itoa(port), nil
}
