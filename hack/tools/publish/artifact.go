// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// artifact is a file in the form of an image: the library would write the configuration of an image, and a chart has its metadata there.
type artifact struct {
	v1.Image
	configType types.MediaType
	config     []byte
}

// artifactOf is the artifact with that layer.
func artifactOf(layer v1.Layer, configType types.MediaType, config []byte) (artifact, error) {
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{Layer: layer})
	return artifact{Image: image, configType: configType, config: config}, err
}

// RawConfigFile is the configuration.
func (a artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

// ConfigName is the digest of the configuration.
func (a artifact) ConfigName() (v1.Hash, error) {
	digest, _, err := v1.SHA256(bytes.NewReader(a.config))
	return digest, err
}

// Manifest is the manifest of the layer, with the configuration.
func (a artifact) Manifest() (*v1.Manifest, error) {
	manifest, err := a.Image.Manifest()
	if err != nil {
		return nil, err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(a.config))
	if err != nil {
		return nil, err
	}
	manifest = manifest.DeepCopy()
	manifest.MediaType = types.OCIManifestSchema1
	manifest.Config = v1.Descriptor{MediaType: a.configType, Size: size, Digest: digest}
	return manifest, nil
}

// RawManifest is what is pushed.
func (a artifact) RawManifest() ([]byte, error) { return partial.RawManifest(a) }

// Digest is the digest of the manifest.
func (a artifact) Digest() (v1.Hash, error) { return partial.Digest(a) }

// Size is the size of the manifest.
func (a artifact) Size() (int64, error) { return partial.Size(a) }
