// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// bundleName is the name of the bundle's image.
const bundleName = "everynode-bundle"

// bundle pushes the bundle as an image that only holds its files; the labels are its annotations, which catalogs are made of. It runs nowhere: the platform is
// that which the Operator Lifecycle Manager asks for on every node.
func (p publisher) bundle(archive string) error {
	var described struct{ Annotations map[string]string }
	if err := fileOf(archive, "metadata/annotations.yaml", &described); err != nil {
		return fmt.Errorf("reading %s: %w", archive, err)
	}
	layer, err := tarball.LayerFromFile(archive, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return fmt.Errorf("reading %s: %w", archive, err)
	}
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), mutate.Addendum{Layer: layer})
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", "amd64", v1.Config{Labels: described.Annotations}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	ref, err := name.NewTag(path.Join(p.registry, bundleName)+":"+p.version, p.options...)
	if err != nil {
		return err
	}
	if err := remote.Write(ref, image, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return err
	}
	_, err = p.pushed("bundle", ref, image)
	return err
}
