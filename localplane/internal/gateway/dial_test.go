// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestDialReachesWhatIsInside(t *testing.T) {
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "v1") }))
	t.Cleanup(pod.Close)
	socket, stop := connectServer(t, "127.0.0.0/31")
	client := http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, address string) (net.Conn, error) { return Dial(ctx, socket, address) },
		DisableKeepAlives: true,
	}}
	answer, err := client.Get(pod.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "v1" {
		t.Errorf("got %q and %v", text, err)
	}
	if _, err := Dial(t.Context(), socket, "192.0.2.1:80"); err == nil || !strings.Contains(err.Error(), "192.0.2.1:80") || !strings.Contains(err.Error(), "403") {
		t.Errorf("an address outside: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(ended, socket, pod.Listener.Addr().String()); err == nil {
		t.Error("a connection was made for nobody")
	}
	stop()
	if _, err := Dial(t.Context(), socket, pod.Listener.Addr().String()); err == nil || !strings.Contains(err.Error(), "gateway") {
		t.Errorf("without a gateway: %v", err)
	}
}
