// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	sigdsse "github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// keys writes a private key, with the password of the environment, and returns the file and who verifies with the public one.
func keys(t *testing.T, password string) (file string, verifier signature.Verifier) {
	t.Helper()
	private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), cryptoutils.StaticPasswordFunc([]byte(password)))
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "cosign.key")
	if err := os.WriteFile(file, private, 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if verifier, err = signature.LoadVerifier(key, crypto.SHA256); err != nil {
		t.Fatal(err)
	}
	return file, verifier
}

// release is a release as hack/release completes it, with programs that are text.
func release(t *testing.T) string {
	t.Helper()
	dist := t.TempDir()
	put := func(name, text string) string {
		file := filepath.Join(dist, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return file
	}
	archiver := filepath.Join(t.TempDir(), "ociarchive")
	call := func(dir string, words ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), words[0], words[1:]...)
		command.Dir = dir
		command.Env = append(os.Environ(), "PLUGIN_PLATFORMS=linux-amd64", "REGISTRY=")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", words, err, out)
		}
	}
	call("..", "go", "build", "-o", archiver, "./ociarchive")
	put("plugin/linux-amd64/kubectl-everynode", "a plugin")
	for _, program := range []string{"everynode-manager", "everynode-agent", "kubectl-everynode"} {
		put(program+".cdx.json", fmt.Sprintf(`{"bomFormat": "CycloneDX", "metadata": {"component": {"name": %q}}}`, program))
		if program != "kubectl-everynode" {
			out := put("images/"+program+"-v1.2.3.tar", "")
			call("..", archiver, "-name", program, "-version", "v1.2.3", "-licence", "../../LICENSE", "-out", out, "linux/amd64="+put("linux/"+program, program), "linux/arm64="+put("linux/"+program, program))
		}
	}
	call("../../..", "hack/release", "v1.2.3", "https://files.example", dist)
	return dist
}

// reader reads what was pushed, as one who has the public key.
type reader struct {
	t        *testing.T
	verifier signature.Verifier
}

// attached are the layers that belong to a digest.
func (r reader) attached(ref name.Digest, suffix string) (layers []v1.Descriptor, contents [][]byte, err error) {
	r.t.Helper()
	image, err := remote.Image(ref.Context().Tag(strings.ReplaceAll(ref.DigestStr(), ":", "-") + suffix))
	if err != nil {
		return nil, nil, err
	}
	if err := validate.Image(image, validate.Fast); err != nil {
		r.t.Errorf("%s%s: %v", ref, suffix, err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, nil, err
	}
	for _, layer := range manifest.Layers {
		blob, err := remote.Layer(ref.Context().Digest(layer.Digest.String()))
		if err != nil {
			return nil, nil, err
		}
		content, err := blob.Compressed()
		if err != nil {
			return nil, nil, err
		}
		data, err := io.ReadAll(content)
		if err != nil {
			return nil, nil, err
		}
		contents = append(contents, data)
	}
	return manifest.Layers, contents, nil
}

// verify checks the signature of what has a digest.
func (r reader) verify(ref name.Digest) error {
	r.t.Helper()
	layers, contents, err := r.attached(ref, signatureSuffix)
	if err != nil {
		return err
	}
	if len(layers) != 1 {
		return fmt.Errorf("%s has %d signatures", ref, len(layers))
	}
	signed, err := base64.StdEncoding.DecodeString(layers[0].Annotations["dev.cosignproject.cosign/signature"])
	if err != nil {
		return err
	}
	if err := r.verifier.VerifySignature(bytes.NewReader(signed), bytes.NewReader(contents[0])); err != nil {
		return err
	}
	claim := payload.Cosign{}
	if err := claim.UnmarshalJSON(contents[0]); err != nil {
		return err
	}
	if claim.Image.DigestStr() != ref.DigestStr() || claim.ClaimedIdentity != ref.Context().Name() {
		return fmt.Errorf("the signature is that of %s", claim.Image)
	}
	return nil
}

// attested are the predicates about a digest, by their types.
func (r reader) attested(ref name.Digest) (map[string]string, error) {
	r.t.Helper()
	layers, contents, err := r.attached(ref, attestationSuffix)
	if err != nil {
		return nil, err
	}
	predicates := map[string]string{}
	for i, content := range contents {
		if err := sigdsse.WrapVerifier(r.verifier).VerifySignature(bytes.NewReader(content), nil); err != nil {
			return nil, err
		}
		envelope := dsse.Envelope{}
		if err := json.Unmarshal(content, &envelope); err != nil {
			return nil, err
		}
		text, err := envelope.DecodeB64Payload()
		if err != nil {
			return nil, err
		}
		s := statement{}
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, err
		}
		if envelope.PayloadType != "application/vnd.in-toto+json" || layers[i].Annotations["predicateType"] != s.PredicateType || len(s.Subject) != 1 || "sha256:"+s.Subject[0].Digest["sha256"] != ref.DigestStr() {
			return nil, errors.New("the statement is " + string(text))
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, s.Predicate); err != nil {
			return nil, err
		}
		predicates[s.PredicateType] = compact.String()
	}
	return predicates, nil
}

// TestPublish: everything is at its name, is signed by its digest, and has its attestations; another key, another image under the name, and a changed file of the
// release are noticed.
func TestPublish(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	at := strings.TrimPrefix(server.URL, "http://") + "/everynode"
	t.Setenv("COSIGN_PASSWORD", "a password")
	key, verifier := keys(t, "a password")
	_, stranger := keys(t, "another one")
	dist := release(t)
	publish := func() (string, error) {
		var out bytes.Buffer
		err := run([]string{"-insecure", "-registry", at, "-version", "v1.2.3", "-key", key, dist}, &out)
		return out.String(), err
	}
	out, err := publish()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := publish(); err != nil || again != out {
		t.Errorf("again: %v\n%s\nafter\n%s", err, again, out)
	}
	tags := map[string]string{"everynode-manager": "everynode-manager:v1.2.3", "everynode-agent": "everynode-agent:v1.2.3", "chart": "charts/everynode:1.2.3", "artifacthub": "charts/everynode:artifacthub.io", "bundle": "everynode-bundle:v1.2.3"}
	for line := range strings.Lines(out) {
		what, reference, _ := strings.Cut(strings.TrimSpace(line), " ")
		ref, err := name.NewDigest(reference)
		if err != nil {
			t.Fatal(err)
		}
		if head, err := remote.Head(ref.Context().Tag(tags[what][strings.Index(tags[what], ":")+1:])); err != nil || head.Digest.String() != ref.DigestStr() || !strings.Contains(reference, at+"/"+strings.Split(tags[what], ":")[0]+"@") {
			t.Errorf("%s is %s, and the registry has %+v: %v", what, reference, head, err)
		}
		r := reader{t, verifier}
		if err := r.verify(ref); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := (reader{t, stranger}).verify(ref); err == nil {
			t.Errorf("%s: another key verifies it", what)
		}
		if what == "artifacthub" {
			checkHub(t, ref, dist)
		}
		if what == "bundle" {
			checkBundle(t, ref)
		}
		if what == "chart" || what == "artifacthub" || what == "bundle" {
			continue
		}
		r.checkPredicates(what, ref)
		if _, err := (reader{t, stranger}).attested(ref); err == nil {
			t.Errorf("%s: another key verifies its attestations", what)
		}
		r.checkImages(ref)
	}
	if count := strings.Count(out, "\n"); count != len(tags) {
		t.Errorf("%d were pushed:\n%s", count, out)
	}
	if err := os.WriteFile(filepath.Join(dist, "images", "everynode-agent-v1.2.3.tar"), []byte("another one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := publish(); err == nil || !strings.Contains(err.Error(), "images/everynode-agent-v1.2.3.tar has changed") {
		t.Errorf("a changed image: %v", err)
	}
	checkNamed(t, dist, publish)
	t.Setenv("COSIGN_PASSWORD", "a wrong one")
	if _, err := publish(); err == nil || !strings.Contains(err.Error(), "with the password in COSIGN_PASSWORD") {
		t.Errorf("a wrong password: %v", err)
	}
}

// checkNamed: nothing is pushed or attested that SHA256SUMS does not name, so a list that was cut off vouches for nothing.
func checkNamed(t *testing.T, dist string, publish func() (string, error)) {
	t.Helper()
	file := filepath.Join(dist, "SHA256SUMS")
	sums, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"images/everynode-agent-v1.2.3.tar", "everynode-manager.cdx.json", "everynode.provenance.json", "everynode-chart-1.2.3.tgz", "artifacthub-repo.yml", "everynode-bundle-1.2.3.tgz"} {
		var others strings.Builder
		for line := range strings.Lines(string(sums)) {
			if !strings.HasSuffix(line, "  "+name+"\n") && !strings.HasSuffix(line, "  images/everynode-agent-v1.2.3.tar\n") { // the test has changed that image
				others.WriteString(line)
			}
		}
		if err := os.WriteFile(file, []byte(others.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := publish(); err == nil || out != "" || !strings.Contains(err.Error(), "SHA256SUMS does not name ") || !strings.Contains(err.Error(), name) {
			t.Errorf("SHA256SUMS without %s: %v, pushed: %s", name, err, out)
		}
	}
}

// checkHub: Artifact Hub finds the file of the release in the layer that it looks for.
func checkHub(t *testing.T, ref name.Digest, dist string) {
	t.Helper()
	image, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != hubLayer || manifest.Config.MediaType != hubConfig {
		t.Fatalf("the manifest is %+v: %v", manifest, err)
	}
	want, err := os.ReadFile(filepath.Join(dist, "artifacthub-repo.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if digest, _, err := v1.SHA256(bytes.NewReader(want)); err != nil || digest != manifest.Layers[0].Digest {
		t.Errorf("the registry has %s, and the release %s: %v", manifest.Layers[0].Digest, digest, err)
	}
}

// checkPredicates compares the attestations of an image with the files of the release.
func (r reader) checkPredicates(what string, ref name.Digest) {
	r.t.Helper()
	predicates, err := r.attested(ref)
	if err != nil {
		r.t.Errorf("%s: %v", what, err)
		return
	}
	commit, err := exec.CommandContext(r.t.Context(), "git", "rev-parse", "HEAD").Output()
	if err != nil {
		r.t.Fatal(err)
	}
	if len(predicates) != 2 || predicates[materials] != fmt.Sprintf(`{"bomFormat":"CycloneDX","metadata":{"component":{"name":%q}}}`, what) ||
		!strings.Contains(predicates[provenance], `"gitCommit":"`+strings.TrimSpace(string(commit))+`"`) {
		r.t.Errorf("%s has the attestations %q", what, predicates)
	}
}

// checkImages checks the images of both platforms, and that a signature of one does not hold for another one under the name of its index.
func (r reader) checkImages(ref name.Digest) {
	r.t.Helper()
	index, err := remote.Index(ref)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		r.t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		r.t.Fatalf("the index has %+v: %v", manifest, err)
	}
	// An attacker pushes another image under the name, and gives it the signature of this one.
	other := ref.Context().Digest(manifest.Manifests[0].Digest.String())
	if err := r.verify(other); err == nil {
		r.t.Error("what was not signed is verified")
	}
	signed, err := remote.Image(ref.Context().Tag(strings.ReplaceAll(ref.DigestStr(), ":", "-") + signatureSuffix))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := remote.Write(ref.Context().Tag(strings.ReplaceAll(other.DigestStr(), ":", "-")+signatureSuffix), signed); err != nil {
		r.t.Fatal(err)
	}
	if err := r.verify(other); err == nil || !strings.Contains(err.Error(), "the signature is that of "+ref.Name()) {
		r.t.Errorf("another image with this signature: %v", err)
	}
}
