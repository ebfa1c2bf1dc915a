// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"everynode.dev/everynode/localplane/internal/images"
)

// disk is the interface of the library's blob handler on disk.
type disk interface {
	ggcr.BlobHandler
	ggcr.BlobStatHandler
	ggcr.BlobPutHandler
	ggcr.BlobDeleteHandler
}

// blobs are the blobs of the registry, files named after their digests.
type blobs struct {
	disk
	dir string
}

func openBlobs(dir string) (*blobs, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the registry's directory: %w", err)
	}
	d, ok := ggcr.NewDiskBlobHandler(dir).(disk)
	if !ok {
		return nil, errors.New("the registry's library cannot keep blobs on a disk any more: see its pkg/registry")
	}
	return &blobs{disk: d, dir: dir}, nil
}

func (b *blobs) file(h v1.Hash) string { return filepath.Join(b.dir, h.Algorithm, h.Hex) }

// serve serves a GET if the blob exists. The library does not support open-ended ranges, with which a runtime continues
// an interrupted pull.
func (b *blobs) serve(w http.ResponseWriter, r *http.Request, digest string) bool {
	h, err := v1.NewHash(digest)
	if err != nil {
		return false
	}
	f, err := os.Open(b.file(h))
	if err != nil {
		return false
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Docker-Content-Digest", h.String())
	http.ServeContent(w, r, "", time.Time{}, f)
	return true
}

// ship stores the images of a plane in the registry. They are built again at each start, because the programs may be
// new.
func ship(ctx context.Context, sources images.Sources, to *blobs, registry http.Handler) ([]kept, error) {
	if sources.Dir == "" {
		return nil, nil
	}
	var shipped []kept
	for _, recipe := range sources.Recipes() {
		image, err := recipe.Make()
		if err != nil {
			return nil, err
		}
		for _, blob := range [][]byte{image.Layer, image.Config} {
			if err := to.add(ctx, blob); err != nil {
				return nil, fmt.Errorf("storing image %s:%s: %w", image.Name, image.Tag, err)
			}
		}
		k := kept{Repo: image.Name, Reference: image.Tag, Type: images.ManifestType, Manifest: image.Manifest}
		if err := put(registry, k); err != nil {
			return nil, err
		}
		shipped = append(shipped, k)
	}
	return shipped, nil
}

// add stores a blob that does not exist, or is incomplete because the machine has lost power while it was written.
func (b *blobs) add(ctx context.Context, blob []byte) error {
	h, _, err := v1.SHA256(bytes.NewReader(blob))
	if err != nil {
		return err
	}
	if size, err := b.Stat(ctx, "", h); err == nil && size == int64(len(blob)) {
		return nil
	}
	return b.Put(ctx, "", h, io.NopCloser(bytes.NewReader(blob)))
}

// sweep removes blobs that no manifest references: those of old images of the plane, and of interrupted pushes.
func (b *blobs) sweep(manifests []kept) error {
	named := map[string]bool{}
	for _, k := range manifests {
		var m v1.Manifest
		if err := json.Unmarshal(k.Manifest, &m); err != nil {
			return fmt.Errorf("reading manifest %s of %s: %w", k.Reference, k.Repo, err)
		}
		named[b.file(m.Config.Digest)] = true
		for _, layer := range m.Layers {
			named[b.file(layer.Digest)] = true
		}
	}
	return filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || named[path] {
			return err
		}
		return os.Remove(path)
	})
}
