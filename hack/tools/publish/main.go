// SPDX-License-Identifier: Apache-2.0

// Command publish pushes what hack/release has completed in a directory to a registry: the images, the chart as an OCI artifact that Helm pulls, and the bundle
// for the Operator Lifecycle Manager.
//
//	publish [-insecure] -registry registry.example/everynode -version v1.2.3 -key cosign.key DIST
//
// Each is signed by its digest, and the images get two attestations: the bill of materials of the program, and where it was built from. All are in the form that
// cosign verifies with the public key. Nothing is written to a public log, which would name a private registry. It prints the name of each, and its reference.
package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore/pkg/signature"
	"sigs.k8s.io/yaml"
)

// The media types of a chart, which Helm asks for.
const (
	chartConfig types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartLayer  types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// The tag and the media types of what Artifact Hub reads of a repository.
const (
	hubTag                    = "artifacthub.io"
	hubConfig types.MediaType = "application/vnd.cncf.artifacthub.config.v1+yaml"
	hubLayer  types.MediaType = "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml"
)

// chartName is the path of the chart in the registry.
const chartName = "charts/everynode"

// publisher knows where things are pushed to.
type publisher struct {
	registry, version string
	options           []name.Option
	key               signature.Signer
	out               io.Writer
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "publish:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	p := publisher{out: out}
	flags := flag.NewFlagSet("publish", flag.ContinueOnError)
	flags.StringVar(&p.registry, "registry", "", "the registry and the path before the names of images")
	flags.StringVar(&p.version, "version", "", "the version of the release")
	key := flags.String("key", "", "the file with the private key to sign with")
	insecure := flags.Bool("insecure", false, "whether the registry is asked without TLS")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if p.registry == "" || p.version == "" || *key == "" || flags.NArg() != 1 {
		return errors.New("give -registry, -version, -key, and the directory of the release")
	}
	var err error
	if p.key, err = loadKey(*key); err != nil {
		return err
	}
	if *insecure {
		p.options = append(p.options, name.Insecure)
	}
	dist := flags.Arg(0)
	if err := unchanged(dist, p.files()); err != nil {
		return err
	}
	for _, program := range []string{"everynode-manager", "everynode-agent"} {
		ref, err := p.image(program, filepath.Join(dist, "images", program+"-"+p.version+".tar"))
		if err != nil {
			return fmt.Errorf("pushing the image of %s: %w", program, err)
		}
		if err := p.attest(ref, program, dist); err != nil {
			return err
		}
	}
	number := strings.TrimPrefix(p.version, "v")
	if err := p.chart(number, filepath.Join(dist, "everynode-chart-"+number+".tgz")); err != nil {
		return fmt.Errorf("pushing the chart: %w", err)
	}
	if err := p.hub(filepath.Join(dist, "artifacthub-repo.yml")); err != nil {
		return fmt.Errorf("pushing what Artifact Hub reads: %w", err)
	}
	if err := p.bundle(filepath.Join(dist, "everynode-bundle-"+number+".tgz")); err != nil {
		return fmt.Errorf("pushing the bundle: %w", err)
	}
	return nil
}

// image pushes an archive of ociarchive, for all its platforms.
func (p publisher) image(program, archive string) (ref name.Digest, err error) {
	dir, err := os.MkdirTemp("", "publish-")
	if err != nil {
		return ref, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := unpack(archive, dir); err != nil {
		return ref, fmt.Errorf("reading %s: %w", archive, err)
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return ref, fmt.Errorf("reading %s: %w", archive, err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return ref, err
	}
	if len(manifest.Manifests) != 1 {
		return ref, fmt.Errorf("%s has %d images, want the one of make images", archive, len(manifest.Manifests))
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return ref, err
	}
	tag, err := name.NewTag(path.Join(p.registry, program)+":"+p.version, p.options...)
	if err != nil {
		return ref, err
	}
	if err := remote.WriteIndex(tag, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return ref, err
	}
	return p.pushed(program, tag, index)
}

// chart pushes the archive of the chart in the way of helm push: its metadata are the configuration, and a tag has _ where a version has +.
func (p publisher) chart(version, archive string) error {
	data, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	metadata := map[string]any{}
	if err := fileOf(archive, "everynode/Chart.yaml", &metadata); err != nil {
		return fmt.Errorf("reading %s: %w", archive, err)
	}
	config, err := json.Marshal(metadata)
	if err != nil {
		return err
	}
	chart, err := artifactOf(static.NewLayer(data, chartLayer), chartConfig, config)
	if err != nil {
		return err
	}
	ref, err := name.NewTag(path.Join(p.registry, chartName)+":"+strings.ReplaceAll(version, "+", "_"), p.options...)
	if err != nil {
		return err
	}
	if err := remote.Write(ref, chart, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return err
	}
	_, err = p.pushed("chart", ref, chart)
	return err
}

// hub pushes what Artifact Hub reads of the repository of the chart. It replaces what an earlier release has pushed.
func (p publisher) hub(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	metadata, err := artifactOf(static.NewLayer(data, hubLayer), hubConfig, []byte("{}"))
	if err != nil {
		return err
	}
	ref, err := name.NewTag(path.Join(p.registry, chartName)+":"+hubTag, p.options...)
	if err != nil {
		return err
	}
	if err := remote.Write(ref, metadata, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return err
	}
	_, err = p.pushed("artifacthub", ref, metadata)
	return err
}

// pushed signs the pushed artifact and prints it, by its digest: a tag may soon point to another artifact.
func (p publisher) pushed(what string, tag name.Tag, artifact interface{ Digest() (v1.Hash, error) }) (ref name.Digest, err error) {
	digest, err := artifact.Digest()
	if err != nil {
		return ref, err
	}
	ref = tag.Context().Digest(digest.String())
	if err := p.sign(ref); err != nil {
		return ref, err
	}
	_, err = fmt.Fprintln(p.out, what, ref.Name())
	return ref, err
}

// files are what is pushed and attested of the directory of a release.
func (p publisher) files() []string {
	number := strings.TrimPrefix(p.version, "v")
	names := []string{"everynode-chart-" + number + ".tgz", "artifacthub-repo.yml", "everynode-bundle-" + number + ".tgz", "everynode.provenance.json"}
	for _, program := range []string{"everynode-manager", "everynode-agent"} {
		names = append(names, "images/"+program+"-"+p.version+".tar", program+".cdx.json")
	}
	return names
}

// unchanged checks that the files of a release match its SHA256SUMS, and that it names those that are needed: a file that has changed since it was packed, or that
// was not packed, must not be signed.
func unchanged(dist string, needed []string) error {
	sums, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if err != nil {
		return fmt.Errorf("the release is not complete (make release): %w", err)
	}
	for line := range strings.Lines(string(sums)) {
		want, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		data, err := os.ReadFile(filepath.Join(dist, filepath.FromSlash(file)))
		if err != nil {
			return fmt.Errorf("reading what SHA256SUMS names: %w", err)
		}
		if digest := sha256.Sum256(data); hex.EncodeToString(digest[:]) != want {
			return fmt.Errorf("%s has changed since the release was packed: make release again", file)
		}
		needed = slices.DeleteFunc(needed, func(name string) bool { return name == file })
	}
	if len(needed) > 0 {
		return fmt.Errorf("SHA256SUMS does not name %s: make release again", strings.Join(needed, ", "))
	}
	return nil
}

// fileOf reads a file of YAML from an archive.
func fileOf(archive, name string, to any) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("it has no %s", name)
		}
		if err != nil {
			return err
		}
		if header.Name != name {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return yaml.Unmarshal(data, to)
	}
}

// unpack unpacks the archive of an image.
func unpack(archive, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(path.Dir(header.Name), 0o755); err != nil {
			return err
		}
		out, err := root.Create(header.Name)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r)
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
}
