// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// archived makes an archive of two programs that are text.
func archived(t *testing.T, out string) {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	err := run([]string{
		"-name", "everynode-test", "-version", "v1", "-licence", put("LICENSE", "the licence"), "-out", out,
		"linux/amd64=" + put("one", "for amd64"), "linux/arm64=" + put("two", "for arm64"),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// unpack writes the files of an archive below a directory, and returns their names in the order in which they come.
func unpack(t *testing.T, archive io.Reader, dir string) (names []string) {
	t.Helper()
	r := tar.NewReader(archive)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(madeAt()) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%s was made by %d at %s", h.Name, h.Uid, h.ModTime)
		}
		names = append(names, fmt.Sprintf("%o %s", h.Mode, h.Name))
		at := filepath.Join(dir, h.Name)
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

func TestTheSameFilesMakeTheSameArchive(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		out := filepath.Join(t.TempDir(), "image.tar")
		archived(t, out)
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = data
		if left, err := os.ReadDir(filepath.Dir(out)); err != nil || len(left) != 1 {
			t.Errorf("it leaves %v: %v", left, err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same files differ")
	}
}

// TestImage: what is in the archive is valid, and as the Dockerfiles make it.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "image.tar")
	archived(t, out)
	file, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unpack(t, file, filepath.Join(dir, "layout"))
	root, err := layout.ImageIndexFromPath(filepath.Join(dir, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(root); err != nil {
		t.Error(err)
	}
	manifest, err := root.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["io.containerd.image.name"] != "docker.io/library/everynode-test:v1" {
		t.Fatalf("the layout is %+v: %v", manifest, err)
	}
	index, err := root.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = index.IndexManifest(); err != nil || len(manifest.Manifests) != 2 {
		t.Fatalf("the image is %+v: %v", manifest, err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		d := manifest.Manifests[i]
		if d.Platform == nil || d.Platform.OS != "linux" || d.Platform.Architecture != arch {
			t.Errorf("number %d is for %+v", i, d.Platform)
		}
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, arch)
	}
}

func checkImage(t *testing.T, image v1.Image, arch string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != arch || config.OS != "linux" || !config.Created.Equal(madeAt()) ||
		config.Config.User != user || strings.Join(config.Config.Entrypoint, " ") != "/everynode-test" {
		t.Errorf("the image is %+v", config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("it has the layers %v: %v", layers, err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	names := unpack(t, content, dir)
	if got, want := strings.Join(names, " "), "644 LICENSE 755 etc/ 644 etc/passwd 755 everynode-test"; got != want {
		t.Errorf("the image holds %s, want %s", got, want)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "everynode-test")); err != nil || string(data) != "for "+arch {
		t.Errorf("the program for %s is %q: %v", arch, data, err)
	}
}

// TestDockerfiles: who builds with them gets what is made here.
func TestDockerfiles(t *testing.T) {
	for _, name := range []string{"everynode-manager", "everynode-agent"} {
		data, err := os.ReadFile(filepath.Join("../../../cmd", name, "Dockerfile"))
		if err != nil {
			t.Fatal(err)
		}
		_, last, _ := strings.Cut(string(data), "\nFROM scratch\n")
		for _, want := range []string{`(?m)^USER ` + user + `$`, `(?m)^ENTRYPOINT \["/` + name + `"\]$`, `(?m)^COPY LICENSE /LICENSE$`, `(?m)^COPY --from=build /` + name + ` /` + name + `$`} {
			if !regexp.MustCompile(want).MatchString(last) {
				t.Errorf("the last stage of the Dockerfile of %s has no line %s:\n%s", name, want, last)
			}
		}
	}
}

func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"":                              "give -name",
		"-name a -version v -out o":     "give -name",
		"-name a -version v -out o x":   "write OS/ARCH=FILE",
		"-name a -version v -out o a=b": "write OS/ARCH=FILE",
		"-name a -version v -out OUT linux/amd64=missing": "missing",
	} {
		out := filepath.Join(t.TempDir(), "image.tar")
		if err := run(strings.Fields(strings.ReplaceAll(args, "OUT", out))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%q: it has written an archive", args)
		}
	}
}
