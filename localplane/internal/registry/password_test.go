// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"strings"
	"testing"
)

func TestOnlyThoseWithThePasswordChangeAnything(t *testing.T) {
	o := options(t)
	c, _ := start(t, o)
	c.push("web", "v1", "content")
	for _, ask := range []struct{ method, path string }{
		{http.MethodPut, "/v2/everynode-agent/manifests/dev"},
		{http.MethodPost, "/v2/web/blobs/uploads/"},
		{http.MethodPatch, "/v2/web/blobs/uploads/1"},
		{http.MethodDelete, "/v2/web/manifests/v1"},
		{http.MethodPut, LatencyPath + "?value=1h"},
		{http.MethodGet, "/v2/"}, // by which clients find out
		{http.MethodGet, "/v2"},
	} {
		for who, sign := range map[string]func(r *http.Request){
			"nobody":            func(*http.Request) {},
			"a wrong password":  func(r *http.Request) { r.SetBasicAuth(User, "secre") },
			"an empty password": func(r *http.Request) { r.SetBasicAuth(User, "") },
			"another user":      func(r *http.Request) { r.SetBasicAuth("root", o.Password) },
		} {
			r, err := http.NewRequestWithContext(t.Context(), ask.method, c.url+ask.path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			sign(r)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusUnauthorized || answer.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s by %s is answered with %s", ask.method, ask.path, who, answer.Status)
			}
		}
	}
	c.pull("web", "v1")
	o.Password, o.Listen = "", "127.0.0.1:0"
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "password") {
		t.Errorf("a registry without a password: %v", err)
	}
}
