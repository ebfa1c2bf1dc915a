// SPDX-License-Identifier: Apache-2.0

package podtemplate

import "slices"

// Images returns the images that a node needs for a pod of template, without duplicates: those of the init containers,
// of the containers and of image volumes, in this order.
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

// NamedImage is an image and the name of the container or volume that needs it.
type NamedImage struct{ Name, Image string }

// NamedImages returns the result of Images, each with the name of the first container that needs it. A volume has the
// name volume-NAME, because a container may have the name of a volume.
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

// objects returns the maps in the list at key.
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
