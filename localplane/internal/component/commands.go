// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"everynode.dev/everynode/internal/dialects"
)

// Loopback is the only address on which a plane listens.
const Loopback = "127.0.0.1"

// ServiceRange and ServiceIP are in the cluster's own network, which is not routed.
const (
	ServiceRange = "10.96.0.0/16"
	ServiceIP    = "10.96.0.1"
)

// Files in the PKI directory. A name without an extension means NAME.crt and NAME.key.
const (
	ClusterAuthority  = "ca"
	EtcdAuthority     = "etcd-ca"
	EtcdServer        = "etcd-server"
	EtcdClient        = "etcd-client"
	APIServerServing  = "kube-apiserver"
	LoopbackServing   = "loopback"
	KubeletClient     = "kubelet-client"
	AdminClient       = "admin"
	ServiceAccountKey = "service-account.key"
)

// KubeconfigFile returns the kubeconfig of a component.
func (in Inputs) KubeconfigFile(client string) string { return in.pki(client + ".kubeconfig") }

// APIServerURL returns the URL of the plane's API server.
func (in Inputs) APIServerURL() string { return in.url(APIServer, "") }

func (in Inputs) pki(name string) string { return filepath.Join(in.Home.PKI(), name) }

func (in Inputs) url(port, path string) string {
	return fmt.Sprintf("https://%s:%d%s", Loopback, in.Ports[port], path)
}

func (in Inputs) port(name string) string { return strconv.Itoa(in.Ports[name]) }

func (in Inputs) cert(name string) string { return in.pki(name + ".crt") }
func (in Inputs) key(name string) string  { return in.pki(name + ".key") }

func etcd(in Inputs) Component {
	client, peer := in.url(Etcd, ""), in.url(PortEtcdPeer, "")
	c := kubernetes(in, Etcd, TierStore, []string{
		"--name=localplane",
		"--data-dir=" + in.Home.Etcd(),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=localplane=" + peer,
		"--cert-file=" + in.cert(EtcdServer),
		"--key-file=" + in.key(EtcdServer),
		"--trusted-ca-file=" + in.cert(EtcdAuthority),
		"--client-cert-auth",
		"--peer-cert-file=" + in.cert(EtcdServer),
		"--peer-key-file=" + in.key(EtcdServer),
		"--peer-trusted-ca-file=" + in.cert(EtcdAuthority),
		"--peer-client-cert-auth",
		// Written data survives the end of the process, but not a power failure, which is good enough here.
		"--unsafe-no-fsync",
		// A single member need not wait for others in an election.
		"--heartbeat-interval=20",
		"--election-timeout=200",
		"--quota-backend-bytes=" + strconv.Itoa(8<<30),
		"--log-level=warn",
	})
	c.Ready = Probe{URL: client + "/health", Authority: in.cert(EtcdAuthority), Client: in.pki(EtcdClient)}
	return c
}

func apiServer(in Inputs) Component {
	c := kubernetes(in, APIServer, TierServer, append([]string{
		"--etcd-servers=" + in.url(Etcd, ""),
		"--etcd-cafile=" + in.cert(EtcdAuthority),
		"--etcd-certfile=" + in.cert(EtcdClient),
		"--etcd-keyfile=" + in.key(EtcdClient),
		"--bind-address=" + Loopback,
		"--secure-port=" + in.port(APIServer),
		"--tls-cert-file=" + in.cert(APIServerServing),
		"--tls-private-key-file=" + in.key(APIServerServing),
		"--client-ca-file=" + in.cert(ClusterAuthority),
		"--anonymous-auth=false",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range=" + ServiceRange,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + in.pki(ServiceAccountKey),
		"--service-account-signing-key-file=" + in.pki(ServiceAccountKey),
		"--allow-privileged=true",
		"--profiling=true",
	}, slices.Concat(in.nodeFlags(), in.auditFlags(), in.versionFlags())...)).versioned(in, APIServer)
	c.Ready = Probe{URL: in.url(APIServer, "/readyz"), Authority: in.cert(ClusterAuthority), Client: in.pki(AdminClient)}
	c.StopGrace = 3 * time.Second
	return c
}

// nodeFlags returns the flags for the connections between the API server and nodes.
func (in Inputs) nodeFlags() []string {
	if in.Real.Count > 0 {
		return in.realNodeFlags()
	}
	return []string{
		"--advertise-address=" + Loopback,
		// Endpoints may not be loopback addresses, and no pod could reach the API server by its Service anyway.
		"--endpoint-reconciler-type=none",
		// Simulated nodes have no kubelet. Their InternalDNS is localhost, so that `kubectl logs` fails immediately and
		// does not try an external address.
		"--kubelet-preferred-address-types=InternalDNS",
	}
}

// versionFlags returns the flags that an API server of another version needs.
func (in Inputs) versionFlags() []string {
	if in.Kubernetes == "" {
		return nil
	}
	// The tokens of simulated agents are bound to nodes, which is enabled by default from 1.31 on. Those of real agents
	// are bound to their pods.
	return []string{"--feature-gates=ServiceAccountTokenNodeBinding=true"}
}

func controllerManager(in Inputs) Component {
	return kubernetes(in, ControllerManager, TierKubernetes, append([]string{
		// Everynode or the process native-controller replaces the DaemonSet controller.
		"--controllers=*,-daemonset",
		"--node-monitor-grace-period=" + in.Nodes.Grace.String(),
		"--node-monitor-period=" + nodeMonitorPeriod(in.Nodes.Grace).String(),
		"--service-account-private-key-file=" + in.pki(ServiceAccountKey),
		"--root-ca-file=" + in.cert(ClusterAuthority),
	}, in.controllerFlags(ControllerManager)...)).versioned(in, ControllerManager).withHealthz(in)
}

func nativeController(in Inputs) Component {
	return kubernetes(in, NativeController, TierKubernetes, append([]string{
		"--controllers=daemonset",
	}, in.controllerFlags(NativeController)...)).versioned(in, ControllerManager).withHealthz(in)
}

// controllerFlags returns the common flags of both processes of kube-controller-manager.
func (in Inputs) controllerFlags(name string) []string {
	return append(in.servingFlags(name, ControllerManager),
		"--use-service-account-credentials=true",
		fmt.Sprintf("--kube-api-qps=%d", in.Clients.QPS),
		fmt.Sprintf("--kube-api-burst=%d", in.Clients.Burst),
	)
}

func scheduler(in Inputs) Component {
	return kubernetes(in, Scheduler, TierKubernetes, append(in.servingFlags(Scheduler, Scheduler),
		fmt.Sprintf("--kube-api-qps=%d", in.Clients.QPS),
		fmt.Sprintf("--kube-api-burst=%d", in.Clients.Burst),
	)).versioned(in, Scheduler).withHealthz(in)
}

// servingFlags returns the client and server flags of a Kubernetes component that serves health checks and metrics on
// name's port and authenticates to the API server as client.
func (in Inputs) servingFlags(name, client string) []string {
	kubeconfig := in.KubeconfigFile(client)
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=" + Loopback,
		"--secure-port=" + in.port(name),
		"--tls-cert-file=" + in.cert(LoopbackServing),
		"--tls-private-key-file=" + in.key(LoopbackServing),
		"--leader-elect=false",
		"--profiling=false",
	}
}

func (c Component) withHealthz(in Inputs) Component {
	c.Ready = Probe{URL: in.url(c.Name, "/healthz"), Authority: in.cert(ClusterAuthority)}
	return c
}

func kwok(in Inputs) Component {
	ready := in.Home.ReadyFile(Kwok)
	c := kubernetes(in, Kwok, TierKubernetes, append([]string{
		"--node-api-dir=" + in.Home.NodeAPIs(),
		fmt.Sprintf("--openyurt-api=%t", slices.Contains(in.Managers.Dialects, dialects.OpenYurt)),
		"--kubeconfig=" + in.KubeconfigFile(Kwok),
		"--ready-file=" + ready,
		"--node-lease-duration=" + in.Nodes.Lease.String(),
		fmt.Sprintf("--kube-api-qps=%d", in.Clients.QPS),
		fmt.Sprintf("--kube-api-burst=%d", in.Clients.Burst),
	}, in.SimArgs...))
	c.Ready = Probe{File: ready}
	return c
}

func manager(in Inputs, name string) Component {
	health := fmt.Sprintf("%s:%d", Loopback, in.Ports[name+portHealth])
	args := []string{
		"--kubeconfig=" + in.KubeconfigFile(name),
		"--dialects=" + strings.Join(in.Managers.Dialects, ","),
		fmt.Sprintf("--metrics-bind-address=%s:%d", Loopback, in.Ports[name+portMetrics]),
		"--health-probe-bind-address=" + health,
		"--leader-elect",
		"--namespace=everynode-system",
		fmt.Sprintf("--kube-api-qps=%d", in.Clients.QPS),
		fmt.Sprintf("--kube-api-burst=%d", in.Clients.Burst),
	}
	if slices.Contains(in.Managers.Dialects, dialects.Kruise) {
		webhooks := fmt.Sprintf("%s:%d", Loopback, in.Ports[name+portWebhook])
		args = append(args, "--webhook-url=https://"+webhooks, "--webhook-bind-address="+webhooks,
			"--feature-gates=PreDownloadImageForDaemonSetUpdate=true")
	}
	return Component{
		Name:      name,
		Tier:      TierEverynode,
		Path:      in.ManagerBinary,
		Args:      append(args, in.Managers.Args...),
		Ready:     Probe{URL: "http://" + health + "/readyz"},
		StopGrace: stopGrace,
	}
}

// nodeMonitorPeriod returns a period that is short enough for the grace period.
func nodeMonitorPeriod(grace time.Duration) time.Duration {
	return min(max(grace/8, time.Second), 5*time.Second)
}
