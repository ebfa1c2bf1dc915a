// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	helmregistry "helm.sh/helm/v4/pkg/registry"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/test/harness"
)

// releaseVersion is the version of the release that is published.
const releaseVersion = "v1.2.3"

// registryOf is the registry of the plane, for clients on this machine.
type registryOf struct {
	t                 *testing.T
	address, password string
}

// published makes a release of the programs under test, publishes it to the registry of the plane, and returns the chart that Helm pulls from there, after its signature was verified.
func published(t *testing.T, c *harness.Cluster) *chart.Chart {
	t.Helper()
	r := registryOf{t: t}
	var err error
	if r.address, err = c.Plane.RegistryAddress(); err != nil {
		t.Fatal(err)
	}
	if r.password, err = c.Plane.RegistryPassword(); err != nil {
		t.Fatal(err)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r.publish(completed(t), private)
	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP(), helmregistry.ClientOptWriter(io.Discard), helmregistry.ClientOptBasicAuth(localplane.RegistryUser, r.password))
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := client.Pull(r.address + "/charts/everynode:" + strings.TrimPrefix(releaseVersion, "v"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.verify(pulled.Manifest.Digest, &private.PublicKey); err != nil {
		t.Fatalf("the signature of the chart %s: %v", pulled.Manifest.Digest, err)
	}
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.verify(pulled.Manifest.Digest, &stranger.PublicKey); err == nil {
		t.Error("another key verifies the chart")
	}
	loaded, err := loader.LoadArchive(bytes.NewReader(pulled.Chart.Data))
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// completed is the directory of a release that hack/release has completed.
func completed(t *testing.T) string {
	t.Helper()
	dist, platform := t.TempDir(), runtime.GOOS+"-"+runtime.GOARCH
	put := func(file string, data []byte) {
		at := filepath.Join(dist, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range append(programs(), "kubectl-everynode") {
		put(program+".cdx.json", []byte("{}"))
	}
	put("plugin/"+platform+"/kubectl-everynode", []byte("no test here installs the plugin"))
	for _, program := range programs() {
		archive := "images/" + program + "-" + releaseVersion + ".tar"
		put(archive, nil)
		pack(t, program, releaseVersion, filepath.Join(dist, filepath.FromSlash(archive)))
	}
	call(t, []string{"REGISTRY=" + localplane.RegistryHost, "PLUGIN_PLATFORMS=" + platform}, "../../hack/release", releaseVersion, "https://files.example", dist)
	return dist
}

// call runs a program to its end.
func call(t *testing.T, environment []string, words ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	command.Env = append(os.Environ(), environment...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s (make test SUITE=install builds what is needed): %v\n%s", words[0], err, out)
	}
}

// publish pushes a release and signs it with the key.
func (r registryOf) publish(dist string, private *ecdsa.PrivateKey) {
	r.t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		r.t.Fatal(err)
	}
	dir := r.t.TempDir()
	login, err := json.Marshal(map[string]any{"auths": map[string]any{r.address: map[string]string{"username": localplane.RegistryUser, "password": r.password}}})
	if err != nil {
		r.t.Fatal(err)
	}
	key := filepath.Join(dir, "key.pem")
	for file, data := range map[string][]byte{key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), filepath.Join(dir, "config.json"): login} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	call(r.t, []string{"DOCKER_CONFIG=" + dir}, filepath.Join(harness.BinDir(), "publish"), "-insecure", "-registry", r.address, "-version", releaseVersion, "-key", key, dist)
}

// verify checks the signature of a chart in the form of cosign: what was signed names the digest.
func (r registryOf) verify(digest string, public *ecdsa.PublicKey) error {
	r.t.Helper()
	ref, err := name.ParseReference(r.address+"/charts/everynode:"+strings.ReplaceAll(digest, ":", "-")+".sig", name.Insecure)
	if err != nil {
		return err
	}
	image, err := remote.Image(ref, remote.WithContext(r.t.Context()), remote.WithAuth(&authn.Basic{Username: localplane.RegistryUser, Password: r.password}))
	if err != nil {
		return err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		return fmt.Errorf("%d signatures: %w", len(layers), err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		return err
	}
	claim, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	signature, err := base64.StdEncoding.DecodeString(manifest.Layers[0].Annotations["dev.cosignproject.cosign/signature"])
	if err != nil {
		return err
	}
	if hash := sha256.Sum256(claim); !ecdsa.VerifyASN1(public, hash[:], signature) {
		return fmt.Errorf("the key does not verify %s", claim)
	}
	if !strings.Contains(string(claim), `"docker-manifest-digest":"`+digest+`"`) {
		return fmt.Errorf("what was signed is %s", claim)
	}
	return nil
}
