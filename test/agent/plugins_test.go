// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/cri/fake"
)

// pluginConfig is a configuration of the kubelet with one plugin for a registry.
const pluginConfig = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: give-login
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["plugin.example.com/team"]
  defaultCacheDuration: 10m
  args: ["--user=ann"]
  env:
  - name: LOGIN_PASSWORD
    value: of-the-plugin
`

// plugin keeps what it was asked, and answers with what its configuration gives it.
const plugin = `#!/bin/sh
cat >>"$(dirname "$0")/asked"
cat <<EOF
{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"Registry",
 "auth":{"plugin.example.com":{"username":"${1#--user=}","password":"$LOGIN_PASSWORD"}}}
EOF
`

// TestCredentialProviderPlugins: the plugins of the kubelet are asked with the kubelet's own configuration, after the pull secrets.
func TestCredentialProviderPlugins(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	err := errors.Join(os.WriteFile(file, []byte(pluginConfig), 0o600), os.WriteFile(filepath.Join(dir, "give-login"), []byte(plugin), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	app := limited("v1", 0)
	app.PullSecrets = []v1beta1.ReferenceObject{secret(t, "before-plugins", "plugin.example.com", "bob", "of-the-secret")}
	n := newNode(t, map[string]v1beta1.ImageSpec{
		"plugin.example.com/team/app": app, "plugin.example.com/team/other": tags("v1"), "else.example.com/app": tags("v1"),
	}, "--credential-provider-config", file, "--credential-provider-bin-dir", dir, "--max-concurrent-pulls", "1")
	runtime := fake.New()
	runtime.Answer = func(_ context.Context, r *runtimeapi.PullImageRequest) error {
		if auth := r.GetAuth(); auth.GetUsername() == "bob" {
			return errors.New("403 Forbidden")
		}
		return nil
	}
	n.serve(runtime)
	n.begin()
	want := map[string]string{
		"else.example.com/app":          ": ",
		"plugin.example.com/team/app":   "bob:of-the-secret ann:of-the-plugin ",
		"plugin.example.com/team/other": "ann:of-the-plugin ",
	}
	for name := range want {
		n.await(name, "v1", v1beta1.ImagePhaseSucceeded, "")
	}
	shown := map[string]string{}
	for _, p := range runtime.Pulls() {
		shown[p.GetImage().GetImage()] += fmt.Sprintf("%s:%s ", p.GetAuth().GetUsername(), p.GetAuth().GetPassword())
	}
	for name, what := range want {
		if shown[name+":v1"] != what {
			t.Errorf("for %s the registry was shown %q, not %q", name, shown[name+":v1"], what)
		}
	}
	// The second image is of the same registry, so the plugin's first answer is good for it.
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if want := `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"plugin.example.com/team/app"}`; err != nil || string(asked) != want {
		t.Errorf("the plugin was asked %s (%v), not %s", asked, err, want)
	}
}
