// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"
)

// A stranger who opens as many connections as there may be, and uses none of them, does not keep other addresses away: neither users nor the kubelet, which ends the pod when
// its probes are not answered.
func TestConnectionsOfOneStranger(t *testing.T) {
	const most = 20
	address := portalOf(t, most)
	dialer := func(from string) *tls.Dialer {
		return &tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}, Config: &tls.Config{InsecureSkipVerify: true}}
	}
	for range most {
		conn, err := dialer("127.0.0.2").DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	kubelet := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialTLSContext: dialer("127.0.0.1").DialContext}}
	answer, err := kubelet.Get("https://" + address + healthPath)
	if err != nil {
		t.Fatalf("a probe from another address: %v", err)
	}
	_ = answer.Body.Close()
}
