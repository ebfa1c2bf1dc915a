// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// A stranger who opens as many connections as there may be, and uses none of them, does not keep other addresses away: neither users nor the kubelet, which ends the pod when
// its probes are not answered.
func TestConnectionsOfOneStranger(t *testing.T) {
	certFile, keyFile := writePair(t, t.TempDir(), "one.example")
	pair, err := certwatcher.New(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	const most = 20
	a := &inCluster{Options: fakecluster.New(t).Options, hosts: []string{testHost}, sessions: 1, most: most}
	ended := make(chan error)
	go func() { ended <- a.serve(ctx, listener, pair, nil) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	dialer := func(from string) *tls.Dialer {
		return &tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Second}, Config: &tls.Config{InsecureSkipVerify: true}}
	}
	for range most {
		conn, err := dialer("127.0.0.2").DialContext(ctx, "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	kubelet := &http.Client{Timeout: time.Second, Transport: &http.Transport{DialTLSContext: dialer("127.0.0.1").DialContext}}
	answer, err := kubelet.Get("https://" + listener.Addr().String() + healthPath)
	if err != nil {
		t.Fatalf("a probe from another address: %v", err)
	}
	_ = answer.Body.Close()
}
