// SPDX-License-Identifier: Apache-2.0

// Package images builds the images of a plane with real nodes, each from one static program.
//
// An image has one layer that is not shared: the program, the file /version with the image's name, and incompressible
// padding, so that a pull takes some time. The same programs always give the same digests.
package images

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Sources are the programs for the images.
type Sources struct {
	// Dir contains the programs pause and testapp, which `make build-images` builds.
	Dir string
	// Agent is the program everynode-agent; if empty, its image is not built. AgentTag is the tag of its image: another
	// program needs another tag, otherwise nodes with the old image use that one.
	Agent, AgentTag string
}

// Recipe is the content of an image.
type Recipe struct {
	// Name and Tag are the name and tag of the image in the registry.
	Name, Tag string
	// Program is the file of the program, with the same name in the root directory of the image.
	Program string
	// Entrypoint is the command of the image, and Env its environment.
	Entrypoint, Env []string
	// Padding is the number of bytes that make the image larger.
	Padding int
}

// Image is an image in the format of a registry.
type Image struct {
	Name, Tag               string
	Layer, Config, Manifest []byte
}

// ManifestType is the media type of the manifests.
const ManifestType = string(types.OCIManifestSchema1)

// padding is large enough to observe a pull, and small enough not to delay tests.
const padding = 4 << 20

// Recipes returns the images of a plane. The variants of app differ in their environment.
func (s Sources) Recipes() []Recipe {
	program := func(name string) string { return filepath.Join(s.Dir, name) }
	app := func(tag string, env ...string) Recipe {
		return Recipe{
			Name: "app", Tag: tag, Program: program("testapp"), Entrypoint: []string{"/testapp"},
			Env: append([]string{"VERSION=" + tag}, env...), Padding: padding,
		}
	}
	broken := app("broken")
	broken.Entrypoint = []string{"/does-not-exist"}
	list := []Recipe{
		{Name: "pause", Tag: "1", Program: program("pause"), Entrypoint: []string{"/pause"}},
		app("v1"), app("v2"), app("v3"),
		broken,                         // cannot be started at all
		app("crash", "CRASH=true"),     // starts, and exits with 1
		app("slow", "READY_DELAY=10s"), // is ready 10 seconds after its start
	}
	if s.Agent != "" {
		list = append(list, Recipe{Name: "everynode-agent", Tag: s.AgentTag, Program: s.Agent, Entrypoint: []string{"/everynode-agent"}})
	}
	return list
}

// Make builds the image.
func (r Recipe) Make() (*Image, error) {
	program, err := os.ReadFile(r.Program)
	if err != nil {
		return nil, fmt.Errorf("making image %s:%s (make build-images builds the programs): %w", r.Name, r.Tag, err)
	}
	layer, err := r.layer(program)
	if err != nil {
		return nil, fmt.Errorf("making image %s:%s: %w", r.Name, r.Tag, err)
	}
	image := &Image{Name: r.Name, Tag: r.Tag, Layer: layer}
	described := describe(layer, types.OCIUncompressedLayer)
	if image.Config, err = json.Marshal(r.config(described.Digest)); err != nil {
		return nil, fmt.Errorf("making image %s:%s: %w", r.Name, r.Tag, err)
	}
	image.Manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		Config:        describe(image.Config, types.OCIConfigJSON),
		Layers:        []v1.Descriptor{described},
	})
	if err != nil {
		return nil, fmt.Errorf("making image %s:%s: %w", r.Name, r.Tag, err)
	}
	return image, nil
}

func (r Recipe) config(layer v1.Hash) v1.ConfigFile {
	return v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Created:      v1.Time{Time: madeAt()},
		RootFS:       v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{layer}},
		History:      []v1.History{{Created: v1.Time{Time: madeAt()}, CreatedBy: "localplane"}},
		Config: v1.Config{
			Entrypoint: r.Entrypoint,
			Env:        append([]string{"PATH=/"}, r.Env...),
			WorkingDir: "/",
		},
	}
}
