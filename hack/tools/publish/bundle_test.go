// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// checkBundle: the image is whole, has the labels from which catalogs are made, and holds the files of the bundle.
func checkBundle(t *testing.T, ref name.Digest) {
	t.Helper()
	image, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]string{"mediatype.v1": "registry+v1", "package.v1": "everynode", "channels.v1": "stable", "manifests.v1": "manifests/"} {
		if got := config.Config.Labels["operators.operatorframework.io.bundle."+label]; got != want {
			t.Errorf("the label %s is %q, want %q", label, got, want)
		}
	}
	files := mutate.Extract(image)
	defer func() { _ = files.Close() }()
	var names []string
	for r := tar.NewReader(files); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
	for _, want := range []string{"metadata/annotations.yaml", "manifests/everynode.clusterserviceversion.yaml"} {
		if !slices.Contains(names, want) {
			t.Errorf("the image has no %s: %q", want, names)
		}
	}
}
