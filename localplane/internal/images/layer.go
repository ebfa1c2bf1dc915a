// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// madeAt is the creation time of all images, so that the same programs always give the same images.
func madeAt() time.Time { return time.Unix(0, 0).UTC() }

// layer returns the only layer of the image. It is not compressed, because the output of a compressor may change with
// the version of Go.
func (r Recipe) layer(program []byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	files := []struct {
		name string
		mode int64
		data []byte
	}{
		{"tmp/", 0o1777, nil},
		{"etc/", 0o755, nil},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/\nnobody:x:65534:65534:nobody:/:/\n")},
		{filepath.Base(r.Program), 0o755, program},
		{"version", 0o644, []byte(r.Name + ":" + r.Tag + "\n")},
		{"padding", 0o644, r.padding()},
	}
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: madeAt(), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("packing %s: %w", f.name, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("packing %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("packing: %w", err)
	}
	return out.Bytes(), nil
}

// padding is incompressible and deterministic.
func (r Recipe) padding() []byte {
	out := make([]byte, r.Padding)
	// According to its documentation, Read never fails.
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(r.Name + ":" + r.Tag))).Read(out)
	return out
}

func describe(blob []byte, mediaType types.MediaType) v1.Descriptor {
	return v1.Descriptor{MediaType: mediaType, Size: int64(len(blob)), Digest: digest(blob)}
}

func digest(blob []byte) v1.Hash {
	sum := sha256.Sum256(blob)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}
