// SPDX-License-Identifier: Apache-2.0

// Package release takes a release as hack/release completes it, and installs from it as users do: Helm's own library pulls the chart from a registry to which
// hack/tools/publish has pushed it, and krew installs the plugin from its archive.
//
// Rule: the programs are those that make builds (make test SUITE=release), and every server listens on this machine.
package release

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	helmregistry "helm.sh/helm/v4/pkg/registry"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
)

const version = "v1.2.3"

// program is one of those that make builds.
func program(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("EVERYNODE_BIN")
	if dir == "" {
		dir = "../../bin"
	}
	file, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v: make test SUITE=release builds what is needed", err)
	}
	return file
}

// call runs a program to its end.
func call(t *testing.T, environment []string, words ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	command.Env = append(os.Environ(), environment...)
	out, err := command.CombinedOutput()
	return string(out), err
}

// complete has hack/release complete a release in a directory, which will be found at a URL. The programs in the images are text, the plugin is the real one.
func complete(t *testing.T, dist, url string) {
	t.Helper()
	put := func(name string, data []byte) string {
		file := filepath.Join(dist, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o700); err != nil {
			t.Fatal(err)
		}
		return file
	}
	plugin, err := os.ReadFile(program(t, "kubectl-everynode"))
	if err != nil {
		t.Fatal(err)
	}
	put("plugin/"+runtime.GOOS+"-"+runtime.GOARCH+"/kubectl-everynode", plugin)
	put("plugin/darwin-arm64/kubectl-everynode", []byte("for another system"))
	for _, name := range []string{"everynode-manager", "everynode-agent", "kubectl-everynode"} {
		put(name+".cdx.json", []byte("{}"))
		if name == "kubectl-everynode" {
			continue
		}
		out := put("images/"+name+"-"+version+".tar", nil)
		said, err := call(t, nil, program(t, "ociarchive"), "-name", name, "-version", version, "-licence", "../../LICENSE", "-out", out, "linux/amd64="+put("linux/"+name, []byte(name)))
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	said, err := call(t, []string{"REGISTRY=registry.example/a", "PLUGIN_PLATFORMS=" + runtime.GOOS + "-" + runtime.GOARCH + " darwin-arm64"}, "../../hack/release", version, url, dist)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}

// TestChartFromTheRegistry: Helm pulls the chart that was pushed, and installs from it what it installs from the directory.
func TestChartFromTheRegistry(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	at, dist := strings.TrimPrefix(server.URL, "http://")+"/everynode", t.TempDir()
	complete(t, dist, "https://files.example")
	if said, err := call(t, nil, program(t, "publish"), "-insecure", "-registry", at, "-version", version, "-key", key(t), dist); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP(), helmregistry.ClientOptWriter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := client.Pull(at + "/charts/everynode:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if meta := pulled.Chart.Meta; meta.Name != "everynode" || meta.Version != "1.2.3" || meta.AppVersion != version || meta.KubeVersion == "" {
		t.Errorf("the registry says that the chart is %+v", meta)
	}
	packed, err := os.ReadFile(filepath.Join(dist, "everynode-chart-1.2.3.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(pulled.Chart.Data, packed) {
		t.Error("the chart in the registry is not the one of the release")
	}
	fromRegistry, err := loader.LoadArchive(bytes.NewReader(pulled.Chart.Data))
	if err != nil {
		t.Fatal(err)
	}
	fromDirectory, err := loader.LoadDir("../../charts/everynode")
	if err != nil {
		t.Fatal(err)
	}
	image := map[string]any{"image": map[string]any{"registry": "registry.example/a", "tag": version}}
	if got, want := manifest(t, fromRegistry, nil), manifest(t, fromDirectory, image); got != want || !strings.Contains(got, "registry.example/a/everynode-manager:"+version) {
		t.Errorf("Helm installs from the registry\n%s\nand from the directory\n%s", got, want)
	}
}

// TestCosign: cosign itself verifies what was pushed, with the commands of docs/security.md, and refuses it with another key.
func TestCosign(t *testing.T) {
	cosign := filepath.Join(filepath.Dir(program(t, "publish")), "cosign")
	if _, err := os.Stat(cosign); err != nil {
		t.Skip("SKIPPED: there is no cosign: make bin/cosign builds it, which takes minutes, then make test SUITE=release")
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	at, dist, keys := strings.TrimPrefix(server.URL, "http://")+"/everynode", t.TempDir(), t.TempDir()
	environment := []string{"COSIGN_PASSWORD=a password"}
	for _, who := range []string{"ours", "other"} {
		if said, err := call(t, environment, cosign, "generate-key-pair", "--output-key-prefix", filepath.Join(keys, who)); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	complete(t, dist, "https://files.example")
	if said, err := call(t, environment, program(t, "publish"), "-insecure", "-registry", at, "-version", version, "-key", filepath.Join(keys, "ours.key"), dist); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, words := range []string{
		"verify everynode-manager:v1.2.3", "verify everynode-agent:v1.2.3", "verify charts/everynode:1.2.3",
		"verify-attestation --type cyclonedx everynode-manager:v1.2.3", "verify-attestation --type slsaprovenance1 everynode-agent:v1.2.3",
	} {
		command := strings.Fields(words)
		last := len(command) - 1
		command[last] = at + "/" + command[last]
		verify := func(who string) (string, error) {
			how := []string{cosign, command[0], "--key", filepath.Join(keys, who+".pub"), "--insecure-ignore-tlog", "--allow-http-registry"}
			return call(t, nil, append(how, command[1:]...)...)
		}
		if said, err := verify("ours"); err != nil {
			t.Errorf("cosign %s: %v\n%s", words, err, said)
		}
		if said, err := verify("other"); err == nil {
			t.Errorf("cosign %s with another key:\n%s", words, said)
		}
	}
}

// manifest is what Helm would apply of a chart.
func manifest(t *testing.T, of *chart.Chart, values map[string]any) string {
	t.Helper()
	install := action.NewInstall(action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler)))
	install.ReleaseName, install.Namespace, install.DryRunStrategy = "everynode", "everynode-system", action.DryRunClient
	install.KubeVersion = &common.KubeVersion{Version: "v1.37.0", Major: "1", Minor: "37"}
	made, err := install.RunWithContext(t.Context(), of, values)
	if err != nil {
		t.Fatal(err)
	}
	r, ok := made.(*releasev1.Release)
	if !ok {
		t.Fatalf("Helm returns %T", made)
	}
	return r.Manifest
}

// key writes a private key without a password.
func key(t *testing.T) string {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	data, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: data}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestKrew: krew's own check accepts the manifest of a release and installs the plugin for each system; what krew has installed runs, and an archive that
// differs from its checksum is refused.
func TestKrew(t *testing.T) {
	dist, damaged := t.TempDir(), false
	files := http.FileServer(http.Dir(dist))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if damaged {
			_, _ = w.Write([]byte("another archive"))
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	complete(t, dist, server.URL)
	// In an index, a manifest has the name of its plugin.
	text, err := os.ReadFile(filepath.Join(dist, "everynode.krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "everynode.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := call(t, []string{"PATH=" + kubectl(t) + string(os.PathListSeparator) + os.Getenv("PATH")}, program(t, "validate-krew-manifest"), "-manifest", file); err != nil {
		t.Errorf("krew's check: %v\n%s", err, said)
	}
	root := t.TempDir()
	install := func(root string) (string, error) {
		return call(t, []string{"KREW_ROOT=" + root, "KREW_NO_UPGRADE_CHECK=1"}, program(t, "krew"), "install", "--manifest="+file, "--no-update-index")
	}
	said, err := install(root)
	if err != nil || !strings.Contains(said, "kubectl_complete-everynode") {
		t.Fatalf("installing: %v\n%s", err, said)
	}
	if said, err := call(t, nil, filepath.Join(root, "bin", "kubectl-everynode"), "version", "--client"); err != nil {
		t.Errorf("what was installed: %v\n%s", err, said)
	}
	if info, err := os.Stat(filepath.Join(root, "store", "everynode", version, "kubectl_complete-everynode")); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("the caveats name a program for completion: %+v, %v", info, err)
	}
	damaged = true
	if said, err := install(t.TempDir()); err == nil || !strings.Contains(said, "checksum") {
		t.Errorf("another archive: %v\n%s", err, said)
	}
}

// kubectl returns a directory with a kubectl that does what krew's check needs of it: it calls krew as its plugin.
func kubectl(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\n[ \"$1\" = krew ] || exit 2\nshift\nexec '" + program(t, "krew") + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}
