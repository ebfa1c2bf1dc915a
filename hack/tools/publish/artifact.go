// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// chartArtifact is a chart in the form of an image: the library would write the configuration of an image, and a chart has its metadata there.
type chartArtifact struct {
	v1.Image
	config []byte
}

// RawConfigFile are the metadata of the chart.
func (a chartArtifact) RawConfigFile() ([]byte, error) { return a.config, nil }

// ConfigName is the digest of the metadata.
func (a chartArtifact) ConfigName() (v1.Hash, error) {
	digest, _, err := v1.SHA256(bytes.NewReader(a.config))
	return digest, err
}

// Manifest is the manifest of the layer, with the metadata as its configuration.
func (a chartArtifact) Manifest() (*v1.Manifest, error) {
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
	manifest.Config = v1.Descriptor{MediaType: chartConfig, Size: size, Digest: digest}
	return manifest, nil
}

// RawManifest is what is pushed.
func (a chartArtifact) RawManifest() ([]byte, error) { return partial.RawManifest(a) }

// Digest is the digest of the manifest.
func (a chartArtifact) Digest() (v1.Hash, error) { return partial.Digest(a) }

// Size is the size of the manifest.
func (a chartArtifact) Size() (int64, error) { return partial.Size(a) }
