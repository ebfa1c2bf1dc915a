// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCallURL: a manager finds out whether its webhooks answer where the API server is sent.
func TestCallURL(t *testing.T) {
	handler := http.NewServeMux()
	handler.HandleFunc("/convert", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no review", http.StatusBadRequest) })
	server := httptest.NewTLSServer(handler)
	defer server.Close()
	ours := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		url, path string
		bundle    []byte
		want      string
	}{
		"it answers":              {server.URL, "/convert", ours, ""},
		"a slash at the end":      {server.URL + "/", "/convert", ours, ""},
		"through a Service":       {"", "/convert", ours, ""},
		"another port":            {strings.Replace(gone.URL, "http:", "https:", 1), "/convert", ours, "connection refused"},
		"another authority":       {server.URL, "/convert", []byte{}, "certificate"},
		"another server is there": {server.URL, "/other", ours, "another server responds there, with 404"},
	} {
		p := &Publisher{URL: c.url, ConversionPath: c.path, Bundle: func() ([]byte, error) { return c.bundle, nil }}
		switch err := p.callURL(t.Context()); {
		case (err == nil) != (c.want == ""):
			t.Errorf("%s: %v", name, err)
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
