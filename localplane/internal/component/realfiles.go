// SPDX-License-Identifier: Apache-2.0

package component

import (
	"bytes"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/template"

	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/pki"
	"everynode.dev/everynode/localplane/internal/realnode"
)

// Files of a real node, in its own directory.
const (
	containerdFile      = "containerd.toml"
	kubeletFile         = "kubelet.yaml"
	kubeletKubeconfig   = "kubelet.kubeconfig"
	kubeProxyFile       = "kube-proxy.yaml"
	kubeProxyKubeconfig = "kube-proxy.kubeconfig"
	networkFile         = "cni/10-plane.conflist" // a link to each pod: with a bridge, responses of services would bypass the node unless br_netfilter is loaded
	registryFile        = "certs.d/" + realnode.RegistryHost + "/hosts.toml"
	kubeletServing      = "kubelet-serving"

	containerdSocket = "/run/containerd/containerd.sock"
)

//go:embed files
var realFiles embed.FS

func (in Inputs) nodeFile(node, name string) string {
	return filepath.Join(in.Home.RealNode(node), "etc", name)
}

func (in Inputs) egressFile() string { return in.pki("egress.yaml") }

// nodeValues are the values for the templates of the files of a node.
type nodeValues struct {
	Node, Address, PodCIDR, PodRange, ClusterDNS string
	RegistryHost, RegistryAddress, PauseImage    string
	Containerd                                   realnode.Programs
	ContainerdSocket, CgroupRoot                 string
	NetworkDir, RegistryDir, ClientAuthority     string
	ServingCert, ServingKey, KubeProxyKubeconfig string
	KubeletHealth, KubeProxyHealth, LeaseSeconds int
	Loopback                                     string
}

func (in Inputs) nodeValues(n int) nodeValues {
	name := realnode.Name(n)
	file := func(file string) string { return in.nodeFile(name, file) }
	return nodeValues{
		Node: name, Address: realnode.Address(n), PodCIDR: realnode.PodCIDR(n), PodRange: realnode.PodRange,
		// No DNS server runs there, but without an address the kubelet logs an error for each pod.
		ClusterDNS:   "10.96.0.10",
		RegistryHost: realnode.RegistryHost, RegistryAddress: registryAddress(), PauseImage: realnode.RegistryHost + "/pause:1",
		Containerd: in.Real.Programs, ContainerdSocket: containerdSocket, CgroupRoot: in.Cgroups().Path(n),
		NetworkDir: filepath.Dir(file(networkFile)), RegistryDir: filepath.Dir(filepath.Dir(file(registryFile))),
		ClientAuthority: in.cert(ClusterAuthority),
		ServingCert:     file(kubeletServing + ".crt"), ServingKey: file(kubeletServing + ".key"),
		KubeProxyKubeconfig: file(kubeProxyKubeconfig),
		KubeletHealth:       kubeletHealth, KubeProxyHealth: kubeProxyHealth,
		LeaseSeconds: int(in.Nodes.Lease.Seconds()), Loopback: Loopback,
	}
}

// issueRealNodes writes the files of all real nodes, and the files for them that the API server needs.
func issueRealNodes(in Inputs, cluster *pki.Authority) error {
	if in.Real.Count == 0 {
		return nil
	}
	if err := issuePassword(in.Home.RegistryPassword()); err != nil {
		return err
	}
	err := cluster.IssueTo(in.Home.PKI(), KubeletClient, pki.Request{Name: kubeletClientUser})
	if err != nil {
		return err
	}
	if err := fill(in.egressFile(), "egress.yaml", in.Home.EgressSocket()); err != nil {
		return err
	}
	for n := 1; n <= in.Real.Count; n++ {
		if err := issueRealNode(in, cluster, n); err != nil {
			return fmt.Errorf("preparing %s: %w", realnode.Name(n), err)
		}
	}
	return nil
}

// issuePassword writes a new password, unless there is one.
func issuePassword(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return home.WriteFile(path, []byte(rand.Text()+"\n"))
}

func issueRealNode(in Inputs, cluster *pki.Authority, n int) error {
	name := realnode.Name(n)
	for _, file := range []string{networkFile, registryFile} {
		if err := os.MkdirAll(filepath.Dir(in.nodeFile(name, file)), 0o700); err != nil {
			return err
		}
	}
	values := in.nodeValues(n)
	var errs []error
	for file, source := range map[string]string{
		containerdFile: fmt.Sprintf("containerd-%d.toml", in.Real.Programs.ContainerdMajor),
		kubeletFile:    kubeletFile, kubeProxyFile: kubeProxyFile, networkFile: "network.conflist", registryFile: "hosts.toml",
	} {
		errs = append(errs, fill(in.nodeFile(name, file), source, values))
	}
	server := fmt.Sprintf("https://%s:%d", realnode.GatewayAddress, in.Ports[APIServer])
	for file, who := range map[string]pki.Request{
		kubeletKubeconfig:   {Name: "system:node:" + name, Groups: []string{"system:nodes"}},
		kubeProxyKubeconfig: {Name: "system:kube-proxy"},
	} {
		errs = append(errs, kubeconfig{server: server, path: in.nodeFile(name, file)}.write(cluster, who))
	}
	return errors.Join(append(errs, cluster.IssueTo(filepath.Dir(in.nodeFile(name, kubeletServing)), kubeletServing, pki.Request{
		Name: "system:node:" + name, Groups: []string{"system:nodes"}, Hosts: []string{name, realnode.Address(n)},
	}))...)
}

// fill writes an embedded template with its values.
func fill(path, source string, values any) error {
	text, err := template.ParseFS(realFiles, "files/"+source)
	if err != nil {
		return fmt.Errorf("reading the template of %s: %w", path, err)
	}
	var out bytes.Buffer
	if err := text.Execute(&out, values); err != nil {
		return fmt.Errorf("filling in %s: %w", path, err)
	}
	return home.WriteFile(path, out.Bytes())
}
