// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/yaml"
)

// parts are what hack/release finds in its directory, for two platforms; the programs are text.
func parts() map[string]string {
	return map[string]string{
		"plugin/linux-amd64/kubectl-everynode": "for linux", "plugin/darwin-arm64/kubectl-everynode": "for darwin",
		"images/everynode-manager-v1.2.3.tar": "an image", "images/everynode-agent-v1.2.3.tar": "another one",
		"everynode-manager.cdx.json": "{}", "everynode-agent.cdx.json": "{}", "kubectl-everynode.cdx.json": "{}",
	}
}

// releases runs hack/release where these parts are, and returns the directory and what is said.
func releases(t *testing.T, parts map[string]string, environment ...string) (dist, says string, err error) {
	t.Helper()
	dist = t.TempDir()
	for name, text := range parts {
		at := filepath.Join(dist, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "../../hack/release", "v1.2.3", "https://files.example/v1.2.3/", dist)
	command.Env = slices.Concat(os.Environ(), []string{"REGISTRY=registry.example/a", "PLUGIN_PLATFORMS=linux-amd64 darwin-arm64"}, environment)
	out, err := command.CombinedOutput()
	return dist, string(out), err
}

// released runs hack/release where all parts are, and returns all files by name.
func released(t *testing.T) map[string][]byte {
	t.Helper()
	dist, says, err := releases(t, parts())
	if err != nil {
		t.Fatalf("%v\n%s", err, says)
	}
	files := map[string][]byte{}
	err = fs.WalkDir(os.DirFS(dist), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files[name], err = os.ReadFile(filepath.Join(dist, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func sum(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}

// TestRelease: what is written is complete, the same each time, and says of itself what it is.
func TestRelease(t *testing.T) {
	files, again := released(t), released(t)
	for name, data := range files {
		if !bytes.Equal(data, again[name]) {
			t.Errorf("%s is another one when it is made again", name)
		}
	}
	var sums []string
	for line := range strings.Lines(string(files["SHA256SUMS"])) {
		digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums = append(sums, name)
		if digest != sum(files[name]) {
			t.Errorf("SHA256SUMS says %s of %s", digest, name)
		}
	}
	slices.Sort(sums)
	want := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool { return name == "SHA256SUMS" || strings.HasPrefix(name, "plugin/") })
	if !slices.Equal(sums, want) {
		t.Errorf("SHA256SUMS is of %q, and there are %q", sums, want)
	}
	c, err := loader.LoadArchive(bytes.NewReader(files["everynode-chart-1.2.3.tgz"]))
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Version != "1.2.3" || c.Metadata.AppVersion != "v1.2.3" || c.Values["image"].(map[string]any)["registry"] != "registry.example/a" {
		t.Errorf("the chart is %+v", c.Metadata)
	}
	if len(c.Templates) != len(load(t).Templates) || len(c.Files) != len(load(t).Files) {
		t.Errorf("the archive of the chart has %d templates and %d files", len(c.Templates), len(c.Files))
	}
	if !bytes.Contains(files["install.yaml"], []byte("image: registry.example/a/everynode-manager:v1.2.3\n")) {
		t.Error("install.yaml does not have the image of the release")
	}
}

// TestReleaseIsWhole: what lacks a part, or has an empty one, is refused, and nothing of it is packed.
func TestReleaseIsWhole(t *testing.T) {
	refused := func(name string, parts map[string]string, environment ...string) {
		t.Helper()
		dist, says, err := releases(t, parts, environment...)
		if err == nil || !strings.Contains(says, name) {
			t.Errorf("without %s: %v\n%s", name, err, says)
		}
		for _, written := range []string{"install.yaml", "SHA256SUMS", "everynode.krew.yaml"} {
			if _, err := os.Stat(filepath.Join(dist, written)); err == nil {
				t.Errorf("without %s there is %s", name, written)
			}
		}
	}
	for name := range parts() {
		without, empty := parts(), parts()
		delete(without, name)
		refused(name+" is missing or empty: make release", without)
		empty[name] = ""
		refused(name+" is missing or empty: make release", empty)
	}
	refused("plugin/linux-arm64/kubectl-everynode is missing", parts(), "PLUGIN_PLATFORMS=linux-amd64 linux-arm64")
	refused("PLUGIN_PLATFORMS", parts(), "PLUGIN_PLATFORMS=")
}

// TestKrew: the manifest of the plugin names what was packed.
func TestKrew(t *testing.T) {
	files := released(t)
	manifest := struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, ShortDescription, Description, Caveats string
			Platforms                                       []struct {
				Selector struct{ MatchLabels map[string]string }
				URI      string
				SHA256   string
				Bin      string
			}
		}
	}{}
	if err := yaml.UnmarshalStrict(files["everynode.krew.yaml"], &manifest); err != nil {
		t.Fatal(err)
	}
	spec := manifest.Spec
	if manifest.Kind != "Plugin" || manifest.Metadata.Name != "everynode" || spec.Version != "v1.2.3" || spec.ShortDescription == "" || len(spec.Platforms) != 2 {
		t.Fatalf("the manifest is %+v", manifest)
	}
	for _, p := range spec.Platforms {
		name, found := strings.CutPrefix(p.URI, "https://files.example/v1.2.3/")
		if want := "kubectl-everynode-v1.2.3-" + p.Selector.MatchLabels["os"] + "-" + p.Selector.MatchLabels["arch"] + ".tar.gz"; !found || name != want {
			t.Errorf("the manifest names %s, want %s", p.URI, want)
		}
		if got := packed(t, files[name]); got != "-rw-r--r-- LICENSE, -rwxr-xr-x kubectl-everynode, -rwxr-xr-x kubectl_complete-everynode" {
			t.Errorf("%s has %s", name, got)
		}
		if p.SHA256 != sum(files[name]) || p.Bin != "kubectl-everynode" {
			t.Errorf("the manifest says %+v", p)
		}
	}
}

// packed are the files of an archive.
func packed(t *testing.T, data []byte) string {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(all)
			return strings.Join(all, ", ")
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, header.FileInfo().Mode().String()+" "+header.Name)
	}
}

// TestReleaseHasAVersion: what is no version is refused, before anything is built.
func TestReleaseHasAVersion(t *testing.T) {
	for version, good := range map[string]bool{
		"v1.2.3": true, "v1.2.3-rc.1": true, "1.2.3": false, "v1.2": false, "0f3c2a1": false, "v1.2.3-4-g0f3c2a1-dirty": false,
	} {
		out, err := exec.CommandContext(t.Context(), "../../hack/release", version).CombinedOutput()
		if (err == nil) != good || !good && !strings.Contains(string(out), "make release VERSION=") {
			t.Errorf("%s: %v\n%s", version, err, out)
		}
	}
}
