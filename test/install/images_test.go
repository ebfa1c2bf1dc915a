// SPDX-License-Identifier: Apache-2.0

package install

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/test/harness"
)

// programs are those with an image.
func programs() []string { return []string{"everynode-manager", "everynode-agent"} }

// pack packs a program under test as make images does.
func pack(t *testing.T, program, tag, archive string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(harness.BinDir(), "ociarchive"), "-name", program, "-version", tag,
		"-licence", "../../LICENSE", "-out", archive, "linux/"+runtime.GOARCH+"="+filepath.Join(harness.BinDir(), program)).CombinedOutput()
	if err != nil {
		t.Fatalf("packing %s (make test SUITE=install builds what is needed): %v\n%s", program, err, out)
	}
}

// push packs the programs under test as make images does, and puts the images into the registry of the plane with that tag.
func push(t *testing.T, c *harness.Cluster, tag string) {
	t.Helper()
	address, err := c.Plane.RegistryAddress()
	if err != nil {
		t.Fatal(err)
	}
	password, err := c.Plane.RegistryPassword()
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range programs() {
		archive := filepath.Join(t.TempDir(), "image.tar")
		pack(t, program, tag, archive)
		root, err := layout.ImageIndexFromPath(unpack(t, archive))
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := root.IndexManifest()
		if err != nil || len(manifest.Manifests) != 1 {
			t.Fatalf("the archive of %s is %+v: %v", program, manifest, err)
		}
		index, err := root.ImageIndex(manifest.Manifests[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(address+"/"+program+":"+tag, name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.WriteIndex(ref, index, remote.WithContext(t.Context()), remote.WithAuth(&authn.Basic{Username: localplane.RegistryUser, Password: password})); err != nil {
			t.Fatalf("pushing %s: %v", program, err)
		}
	}
}

// unpack unpacks an archive, and returns where.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	dir := t.TempDir()
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(at, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(at, data, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
