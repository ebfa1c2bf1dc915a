// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// Edit changes images in the specification of one NodeImage.
type Edit struct {
	Node string
	// ResourceVersion is the resourceVersion of the NodeImage from which the edit was computed.
	ResourceVersion string
	// Images are the images as they are to be; nil removes one.
	Images map[string]*v1beta1.ImageSpec
	// Begins reports whether the node begins with it.
	Begins bool
	// bare reports whether the NodeImage has no images yet.
	bare bool
}

// Patch is the edit as a JSON patch. It sets the version that it was decided on, so the API server refuses it if the version has changed.
func (e *Edit) Patch() ([]byte, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	operations := []operation{{"add", "/metadata/resourceVersion", e.ResourceVersion}}
	if e.bare {
		// The specification may be missing altogether, and has nothing else.
		operations = append(operations, operation{"add", "/spec", map[string]any{"images": map[string]any{}}})
	}
	for _, name := range slices.Sorted(maps.Keys(e.Images)) {
		path := "/spec/images/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if image := e.Images[name]; image != nil {
			operations = append(operations, operation{"add", path, image})
		} else {
			operations = append(operations, operation{Op: "remove", Path: path})
		}
	}
	data, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encoding an edit of the node image %s: %w", e.Node, err)
	}
	return data, nil
}

// Apply is the specification after the edit.
func (e *Edit) Apply(spec v1beta1.NodeImageSpec) v1beta1.NodeImageSpec {
	images := maps.Clone(spec.Images)
	if images == nil {
		images = map[string]v1beta1.ImageSpec{}
	}
	for name, image := range e.Images {
		if image == nil {
			delete(images, name)
		} else {
			images[name] = *image
		}
	}
	return v1beta1.NodeImageSpec{Images: images}
}

// draft is an Edit being made.
type draft struct {
	from *v1beta1.NodeImage
	edit Edit
}

func newDraft(image *v1beta1.NodeImage) *draft {
	return &draft{from: image, edit: Edit{
		Node: image.Name, ResourceVersion: image.ResourceVersion, Images: map[string]*v1beta1.ImageSpec{}, bare: len(image.Spec.Images) == 0,
	}}
}

// image is the image of that name in the draft; a copy, which is put back with put.
func (d *draft) image(name string) v1beta1.ImageSpec {
	if image, ok := d.edit.Images[name]; ok {
		if image == nil {
			return v1beta1.ImageSpec{}
		}
		return *image.DeepCopy()
	}
	image := d.from.Spec.Images[name]
	return *image.DeepCopy()
}

// put sets an image; one without tags is removed.
func (d *draft) put(name string, image v1beta1.ImageSpec) {
	if len(image.Tags) > 0 {
		slices.SortStableFunc(image.Tags, func(a, b v1beta1.ImageTagSpec) int { return strings.Compare(a.Tag, b.Tag) })
		d.edit.Images[name] = &image
		return
	}
	if _, was := d.from.Spec.Images[name]; was {
		d.edit.Images[name] = nil
	} else {
		delete(d.edit.Images, name)
	}
}

func (d *draft) changed() bool { return len(d.edit.Images) > 0 }

// removes reports whether an image goes with the draft.
func (d *draft) removes(name string) bool {
	image, changed := d.edit.Images[name]
	return changed && image == nil
}
