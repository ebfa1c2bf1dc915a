// SPDX-License-Identifier: Apache-2.0

package component

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
	apiserverv1beta1 "k8s.io/apiserver/pkg/apis/apiserver/v1beta1"
	"k8s.io/client-go/tools/clientcmd"
	proxyv1alpha1 "k8s.io/kube-proxy/config/v1alpha1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/realnode"
)

// realInputs are those of a plane with two real nodes.
func realInputs(t *testing.T) Inputs {
	t.Helper()
	in := testInputs(t)
	in.Real = Real{
		Count: 2, Node: "/bin/localplane-node", Images: "/bin/images", Agent: "/bin/everynode-agent", Latency: 2 * time.Second,
		Programs: realnode.Programs{
			Containerd: "/opt/containerd/containerd", Runc: "/usr/sbin/runc", CNIDir: "/usr/lib/cni", Node: "/bin/localplane-node",
			ContainerdMajor: 1, Snapshotter: "native",
		},
	}
	in.Ports = ports(t, PortNames(in), nil)
	return in
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// strictly decodes a file into the type that its reader has for it.
func strictly[T any](t *testing.T, path string) T {
	t.Helper()
	var config T
	if err := yaml.UnmarshalStrict(read(t, path), &config); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return config
}

func TestOnlyAPlaneWithRealNodesHasTheirComponents(t *testing.T) {
	in := realInputs(t)
	var names []string
	for _, c := range All(in) {
		names = append(names, c.Name)
	}
	for _, want := range []string{"network", "gateway", "registry", "real-1", "real-1-containerd", "real-1-kubelet", "real-1-kube-proxy", "real-2-kubelet"} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no %s among %v", want, names)
		}
	}
	in.Real.Count = 0
	for _, c := range All(in) {
		if c.Inside != "" || c.Unshare != 0 || c.Linked != nil || c.Name == Registry {
			t.Errorf("a plane without real nodes has %s", c.Name)
		}
	}
	if slices.Contains(PortNames(in), Registry) {
		t.Error("a plane without real nodes has a port for the registry")
	}
}

func TestComponentsOfRealNodesStartInOrder(t *testing.T) {
	const count = 11 // from the tenth on numbers have two digits
	in := realInputs(t)
	in.Real.Count = count
	list, parts := All(in), 0
	nodePartOf := regexp.MustCompile(`^(real-\d+)-`)
	for _, c := range list {
		for _, other := range c.After {
			if named(t, list, other).Tier > c.Tier {
				t.Errorf("%s waits for %s, which starts in a later tier", c.Name, other)
			}
		}
		if c.Inside == "" {
			continue
		}
		if !slices.Contains(c.After, c.Inside) {
			t.Errorf("%s does not wait for %s, inside of which it runs", c.Name, c.Inside)
		}
		if named(t, list, c.Inside).Unshare == 0 {
			t.Errorf("%s runs inside of %s, which has no namespaces of its own", c.Name, c.Inside)
		}
		// Nothing of a node is started on the machine itself.
		if part := nodePartOf.FindStringSubmatch(c.Name); part != nil {
			parts++
			if c.Inside != part[1] {
				t.Errorf("%s runs inside of %q", c.Name, c.Inside)
			}
		}
	}
	if parts != 3*count {
		t.Errorf("%d nodes have %d parts, want 3 each", count, parts)
	}
	registry := named(t, list, Registry)
	for _, want := range []string{"--images=/bin/images", "--agent=/bin/everynode-agent", "--latency=2s"} {
		if !slices.Contains(registry.Args, want) {
			t.Errorf("the registry runs without %s: %v", want, registry.Args)
		}
	}
}

// reachable tells whether an address is one of the machine's loopback, or one that only the plane knows.
func reachable(text string) bool {
	if text == Loopback {
		return true
	}
	address, err := netip.ParseAddr(text)
	return err == nil && netip.MustParsePrefix(realnode.NodeRange).Contains(address)
}

func TestRealNodesListenOnlyWhereThePlaneIs(t *testing.T) {
	in := realInputs(t)
	if err := IssueCredentials(in); err != nil {
		t.Fatal(err)
	}
	addresses := regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+(/\d+)?\b`)
	found := 0
	for _, c := range All(in) {
		for _, arg := range c.Args {
			for _, address := range addresses.FindAllString(arg, -1) {
				found++
				if !reachable(address) && address != ServiceRange {
					t.Errorf("%s: %s", c.Name, arg)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no component is told an address: nothing was looked at")
	}
	for n := 1; n <= in.Real.Count; n++ {
		file := func(name string) string { return in.nodeFile(realnode.Name(n), name) }
		kubelet := strictly[kubeletv1beta1.KubeletConfiguration](t, file(kubeletFile))
		if kubelet.Address != realnode.Address(n) || kubelet.HealthzBindAddress != Loopback || kubelet.ReadOnlyPort != 0 {
			t.Errorf("the kubelet listens on %s, %s and port %d", kubelet.Address, kubelet.HealthzBindAddress, kubelet.ReadOnlyPort)
		}
		if *kubelet.Authentication.Anonymous.Enabled || kubelet.Authorization.Mode != kubeletv1beta1.KubeletAuthorizationModeWebhook {
			t.Error("the kubelet answers anybody")
		}
		proxy := strictly[proxyv1alpha1.KubeProxyConfiguration](t, file(kubeProxyFile))
		for _, address := range []string{proxy.BindAddress, proxy.HealthzBindAddress, proxy.MetricsBindAddress} {
			if host, _, _ := strings.Cut(address, ":"); !reachable(host) {
				t.Errorf("kube-proxy listens on %q", address)
			}
		}
	}
}

func TestFilesOfRealNodes(t *testing.T) {
	in := realInputs(t)
	if err := IssueCredentials(in); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= in.Real.Count; n++ {
		name := realnode.Name(n)
		kubelet := strictly[kubeletv1beta1.KubeletConfiguration](t, in.nodeFile(name, kubeletFile))
		if kubelet.CgroupRoot != in.Cgroups().Path(n) || kubelet.NodeLeaseDurationSeconds != 10 || kubelet.ContainerRuntimeEndpoint != "unix://"+containerdSocket {
			t.Errorf("%s: %+v", name, kubelet)
		}
		for _, file := range []string{kubelet.TLSCertFile, kubelet.TLSPrivateKeyFile, kubelet.Authentication.X509.ClientCAFile} {
			read(t, file)
		}
		proxy := strictly[proxyv1alpha1.KubeProxyConfiguration](t, in.nodeFile(name, kubeProxyFile))
		if proxy.HostnameOverride != name || proxy.Mode != "nftables" || proxy.ClusterCIDR != realnode.PodRange {
			t.Errorf("%s: %+v", name, proxy)
		}
		read(t, proxy.ClientConnection.Kubeconfig)
		var network struct {
			CNIVersion, Name string
			Plugins          []struct {
				Type string
				IPAM struct{ Ranges [][]struct{ Subnet string } }
			}
		}
		if err := json.Unmarshal(read(t, in.nodeFile(name, networkFile)), &network); err != nil {
			t.Fatal(err)
		}
		if len(network.Plugins) != 2 || network.CNIVersion == "" || network.Name == "" || network.Plugins[0].IPAM.Ranges[0][0].Subnet != realnode.PodCIDR(n) {
			t.Errorf("%s: the network is %+v", name, network)
		}
		for _, arg := range slices.Concat(named(t, All(in), Kubelet(name)).Args, named(t, All(in), KubeProxy(name)).Args, named(t, All(in), Containerd(name)).Args) {
			if path := arg[strings.Index(arg, "=")+1:]; filepath.IsAbs(path) {
				read(t, path)
			}
		}
	}
	egress := strictly[apiserverv1beta1.EgressSelectorConfiguration](t, in.egressFile())
	if got := egress.EgressSelections[0]; got.Name != "cluster" || got.Connection.Transport.UDS.UDSName != in.Home.EgressSocket() {
		t.Errorf("the API server reaches the nodes by %+v", got)
	}
}

func TestContainerdIsConfiguredForItsVersion(t *testing.T) {
	for major, images := range map[int][]string{1: {"plugins", "io.containerd.grpc.v1.cri"}, 2: {"plugins", "io.containerd.cri.v1.images"}} {
		in := realInputs(t)
		in.Real.Programs.ContainerdMajor = major
		if err := IssueCredentials(in); err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := toml.Unmarshal(read(t, in.nodeFile("real-2", containerdFile)), &config); err != nil {
			t.Fatalf("containerd %d: %v", major, err)
		}
		if config["version"] != int64(major+1) {
			t.Errorf("containerd %d: version %v", major, config["version"])
		}
		at := func(path ...string) any {
			value := any(config)
			for _, key := range path {
				table, _ := value.(map[string]any)
				value = table[key]
			}
			return value
		}
		if got := at("grpc", "address"); got != containerdSocket {
			t.Errorf("containerd %d listens at %v", major, got)
		}
		registries, _ := at(append(images, "registry", "config_path")...).(string)
		var hosts struct{ Host map[string]any }
		if err := toml.Unmarshal(read(t, filepath.Join(registries, realnode.RegistryHost, "hosts.toml")), &hosts); err != nil || hosts.Host["http://10.77.0.1:5000"] == nil {
			t.Errorf("containerd %d: registries in %q: %v, %v", major, registries, hosts, err)
		}
		text := string(read(t, in.nodeFile("real-2", containerdFile)))
		for _, want := range []string{`"registry.local/pause:1"`, `"native"`, `"/usr/lib/cni"`, `"/usr/sbin/runc"`} {
			if !strings.Contains(text, want) {
				t.Errorf("containerd %d is not told %s", major, want)
			}
		}
		// Its shim is beside it, and what it would leave in /tmp of the machine goes with the node.
		if env := named(t, All(in), Containerd("real-2")).Env; len(env) != 2 || !strings.HasPrefix(env[0], "PATH=/opt/containerd:") || env[1] != "TMPDIR=/run" {
			t.Errorf("containerd runs with %v", env)
		}
	}
}

func TestWhoRealNodesAre(t *testing.T) {
	in := realInputs(t)
	if err := IssueCredentials(in); err != nil {
		t.Fatal(err)
	}
	certificate := func(raw []byte) *x509.Certificate {
		block, _ := pem.Decode(raw)
		if block == nil {
			t.Fatal("no certificate")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for file, want := range map[string]string{kubeletKubeconfig: "system:node:real-2 [system:nodes]", kubeProxyKubeconfig: "system:kube-proxy []"} {
		path := in.nodeFile("real-2", file)
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		// The gateway has the API server's own port, which is also the one of its service's endpoints.
		if server := fmt.Sprintf("https://%s:%d", realnode.GatewayAddress, in.Ports[APIServer]); config.Host != server {
			t.Errorf("%s leads to %s, want %s", file, config.Host, server)
		}
		who := certificate(config.CertData).Subject
		if got := fmt.Sprint(who.CommonName, " ", who.Organization); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	serving := certificate(read(t, in.nodeFile("real-2", kubeletServing+".crt")))
	if len(serving.IPAddresses) != 1 || serving.IPAddresses[0].String() != realnode.Address(2) || !slices.Equal(serving.DNSNames, []string{"real-2"}) {
		t.Errorf("the kubelet serves as %v, %v", serving.IPAddresses, serving.DNSNames)
	}
	if who := certificate(read(t, in.cert(KubeletClient))).Subject; who.CommonName != kubeletClientUser || len(who.Organization) != 0 {
		t.Errorf("kubelets know the API server as %s", who)
	}
	server := certificate(read(t, in.cert(APIServerServing)))
	if err := server.VerifyHostname(realnode.GatewayAddress); err != nil {
		t.Errorf("nodes do not believe the API server: %v", err)
	}
}

// A node has a /run and a /var/lib of its own, wherever its programs are.
func TestANodeSeesItsProgramsAndThePlane(t *testing.T) {
	in := realInputs(t)
	args := named(t, All(in), "real-2").Args
	for _, dir := range []string{"/opt/containerd", "/usr/sbin", "/usr/lib/cni", "/bin", in.Home.Dir()} {
		if !slices.Contains(args, "--keep="+dir) {
			t.Errorf("%s is not kept: %v", dir, args)
		}
	}
}

func TestCgroupsTellPlanesApart(t *testing.T) {
	id := func(dir string) string {
		h, err := home.At(dir)
		if err != nil {
			t.Fatal(err)
		}
		return Inputs{Home: h}.Cgroups().ID
	}
	if a, b := id("/tmp/a"), id("/tmp/b"); a == b || a != id("/tmp/x/../a") || !regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString(a) {
		t.Errorf("planes in /tmp/a and /tmp/b are %s and %s", a, b)
	}
}

// TestALinkIsAsTheLastMarkSays, whatever the mark becomes while the link is set.
func TestALinkIsAsTheLastMarkSays(t *testing.T) {
	for name, cutFirst := range map[string]bool{"healed meanwhile": true, "cut meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			h := testInputs(t).Home
			mark := h.CutFile("real-1")
			cut := func(cut bool) {
				t.Helper()
				err := os.RemoveAll(mark)
				if cut {
					err = errors.Join(os.MkdirAll(filepath.Dir(mark), 0o700), os.WriteFile(mark, nil, 0o600))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			cut(cutFirst)
			var sets []bool
			err := FollowMark(h, "real-1", func(up bool) error {
				if sets = append(sets, up); len(sets) == 1 {
					cut(!cutFirst) // between the look at the mark and the end of this
				}
				return nil
			})
			if want := []bool{!cutFirst, cutFirst}; err != nil || !slices.Equal(sets, want) {
				t.Errorf("the link was set to %v, want %v; error %v", sets, want, err)
			}
		})
	}
	broken := errors.New("no link")
	if err := FollowMark(testInputs(t).Home, "real-1", func(bool) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a link that cannot be set: %v", err)
	}
}
