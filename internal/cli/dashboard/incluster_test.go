// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// writePair writes a certificate for a name and its key.
func writePair(t *testing.T, dir, name string) (certFile, keyFile string) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for path, data := range map[string][]byte{certFile: certificate, keyFile: key} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestMistakesInTheCluster(t *testing.T) {
	certFile, keyFile := writePair(t, t.TempDir(), testHost)
	const cluster = " --api-server https://192.0.2.1"
	pair := " --tls-cert-file " + certFile + " --tls-private-key-file " + keyFile
	for line, want := range map[string]string{
		"--hosts a" + pair:                                                   "set --api-server",
		pair + cluster:                                                       "--hosts is missing",
		"--hosts a" + cluster:                                                "only taken over TLS",
		"--hosts a b" + cluster:                                              `unexpected argument "b"`,
		"--host a" + cluster:                                                 "unknown flag",
		"--hosts a --listen here" + pair + cluster:                           "is not an address with a port",
		"--hosts https://a" + pair + cluster:                                 "is not a host name",
		"--hosts a:b" + pair + cluster:                                       "is not a host name",
		"--hosts a/b" + pair + cluster:                                       "is not a host name",
		"--hosts a --max-sessions 0" + pair + cluster:                        "at least 1",
		"--hosts a --api-server http://192.0.2.1" + pair:                     "is not an https:// URL",
		"--hosts a --tls-cert-file /no --tls-private-key-file /no" + cluster: "cannot be used",
		"--hosts a --api-server-ca-file /no/such/file" + pair + cluster:      "--api-server-ca-file",
	} {
		o := fakecluster.New(t).Options
		cmd := NewInCluster(o, program)
		cmd.SetArgs(strings.Fields(line))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) || (options.Code(err) == options.ExitUsage) != !strings.Contains(want, "ca-file") {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// In a pod the API server is known from the environment; names of hosts are compared as browsers send them.
func TestInAPod(t *testing.T) {
	cluster := fakecluster.New(t)
	cluster.Env["KUBERNETES_SERVICE_HOST"], cluster.Env["KUBERNETES_SERVICE_PORT"] = "2001:db8::1", "443"
	a := &inCluster{Options: cluster.Options, listen: ":8443", hosts: []string{"Everynode.Example:443", "localhost:8443", "[::1]:8443"}, certFile: "c", keyFile: "k", sessions: 1}
	if err := a.check(); err != nil || a.apiServer != "https://[2001:db8::1]:443" || !slices.Equal(a.hosts, []string{testHost, "localhost:8443", "[::1]:8443"}) {
		t.Errorf("%v: %s, %q", err, a.apiServer, a.hosts)
	}
}

// All requests have the token of the user, and nothing else that says who asks: neither the credentials of the program nor a user to impersonate.
func TestClientsHaveTheTokenAlone(t *testing.T) {
	var mu sync.Mutex
	seen := map[string][]http.Header{}
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get("Authorization")] = append(seen[r.Header.Get("Authorization")], r.Header.Clone())
		mu.Unlock()
		http.Error(w, "{}", http.StatusNotFound)
	}))
	defer api.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	cluster := &rest.Config{
		Host: api.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}, BearerToken: "of-the-pod", BearerTokenFile: "/no/such/token", Username: "pod", Password: "x",
		Impersonate: rest.ImpersonationConfig{UserName: "admin"},
	}
	o := fakecluster.New(t).Options
	for _, token := range []string{"tok-a", "tok-b"} {
		clients, err := o.ClientsOf(token, cluster)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = clients.Kubernetes.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		_, _ = clients.Dynamic.Resource(metav1.Unversioned.WithResource("nodes")).List(t.Context(), metav1.ListOptions{})
		_, _ = clients.Discovery.ServerVersion()
	}
	if len(seen) != 2 || len(seen["Bearer tok-a"]) != 3 || len(seen["Bearer tok-b"]) != 3 {
		t.Errorf("the API server has seen %v", seen)
	}
	for _, headers := range seen {
		for _, h := range headers {
			if h.Get("Impersonate-User") != "" {
				t.Errorf("the headers are %v", h)
			}
		}
	}
}

// The new certificate is served without a restart. While the files cannot be used, it is the one before.
func TestTheCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := writePair(t, dir, "one.example")
	pair, err := certwatcher.New(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	a := &inCluster{Options: fakecluster.New(t).Options, hosts: []string{testHost}, sessions: 1}
	ended := make(chan error)
	go func() { ended <- a.serve(ctx, listener, pair, nil) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	serves := func(name string) {
		t.Helper()
		deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for served := ""; served != name; {
			dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // the name is what is looked at
			conn, err := dialer.DialContext(deadline, "tcp", listener.Addr().String())
			if err != nil {
				t.Fatalf("it serves %q, want %s: %v", served, name, err)
			}
			served = conn.(*tls.Conn).ConnectionState().PeerCertificates[0].DNSNames[0]
			_ = conn.Close()
		}
	}
	serves("one.example")
	if err := os.WriteFile(certFile, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	serves("one.example")
	writePair(t, dir, "two.example")
	serves("two.example")
}
