// SPDX-License-Identifier: Apache-2.0

package podtemplate

import "slices"

// Images are the images that a node needs for a pod of template, each once: those of the init containers, of the
// containers and of image volumes, in the order in which they stand there.
func Images(template map[string]any) []string {
	spec := object(template, "spec")
	var images []string
	add := func(from map[string]any, key string) {
		image, _ := from[key].(string)
		if image != "" && !slices.Contains(images, image) {
			images = append(images, image)
		}
	}
	for _, list := range []string{"initContainers", "containers"} {
		for _, container := range objects(spec, list) {
			add(container, "image")
		}
	}
	for _, volume := range objects(spec, "volumes") {
		add(object(volume, "image"), "reference")
	}
	return images
}

// NamedImage is an image and what needs it.
type NamedImage struct{ Name, Image string }

// NamedImages are those of Images, each with the name of the first container that needs it; volume-NAME stands for a volume, whose
// name may be that of a container too.
func NamedImages(template map[string]any) []NamedImage {
	spec := object(template, "spec")
	var images []NamedImage
	add := func(name string, from map[string]any, key string) {
		image, _ := from[key].(string)
		if image != "" && !slices.ContainsFunc(images, func(n NamedImage) bool { return n.Image == image }) {
			images = append(images, NamedImage{name, image})
		}
	}
	for _, list := range []string{"initContainers", "containers"} {
		for _, container := range objects(spec, list) {
			name, _ := container["name"].(string)
			add(name, container, "image")
		}
	}
	for _, volume := range objects(spec, "volumes") {
		name, _ := volume["name"].(string)
		add("volume-"+name, object(volume, "image"), "reference")
	}
	return images
}

// objects are the maps in the list at key.
func objects(m map[string]any, key string) []map[string]any {
	list, _ := m[key].([]any)
	found := make([]map[string]any, 0, len(list))
	for _, item := range list {
		if value, ok := item.(map[string]any); ok {
			found = append(found, value)
		}
	}
	return found
}
