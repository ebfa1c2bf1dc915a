// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/imageref"
)

func newSetImage(o *options.Options) *cobra.Command {
	v := &verb{Options: o}
	var images map[string]string
	v.check = func(args []string) (err error) {
		images, err = parseImages(args)
		return err
	}
	c := v.command(&cobra.Command{
		Use:   "set-image NAME CONTAINER=IMAGE...",
		Short: "Change the images of containers of the template",
		Long: lines("Change the images of containers of the template, including init containers. `*=IMAGE` means all of them.",
			"", "Use plan --image to see what this would do to each node."),
		Example: lines("  # Roll out version 2", "  kubectl everynode set-image ads/agent agent=registry.example/agent:2", "",
			"  # Only check whether it would be accepted", "  kubectl everynode set-image ads/agent agent=registry.example/agent:2 --dry-run"),
		Args: options.Arguments(2, resolver.Argument("NAME"), options.Argument{Word: "CONTAINER=IMAGE...", What: "a container and its new image"}),
	}, func(ctx context.Context, c *options.Clients, set *resolver.Set, _ []string) error {
		err := v.patch(ctx, c, step{set, "image updated", func(object *unstructured.Unstructured) error { return setImages(object, set.String(), images) }})
		if err == nil {
			v.warnHeldBack(set)
		}
		return err
	})
	c.ValidArgsFunction = v.completeContainers
	return c
}

// everyContainer means all containers.
const everyContainer = "*"

// containerLists returns the fields of a template with containers.
func containerLists() []string { return []string{"initContainers", "containers"} }

func parseImages(args []string) (map[string]string, error) {
	images := map[string]string{}
	for _, arg := range args {
		name, image, found := strings.Cut(arg, "=")
		if !found || name == "" || image == "" {
			return nil, options.Usagef("%q does not give a container an image: write CONTAINER=IMAGE", arg)
		}
		if _, _, err := imageref.Split(image); err != nil {
			return nil, options.Usagef("%q cannot be the image of container %s: %w", image, name, err)
		}
		if other, twice := images[name]; twice && other != image {
			return nil, options.Usagef("container %s cannot have two images, %s and %s", name, other, image)
		}
		images[name] = image
	}
	return images, nil
}

// setImages changes the images of a template.
func setImages(object *unstructured.Unstructured, title string, images map[string]string) error {
	used := map[string]bool{}
	for _, list := range containerLists() {
		containers, found, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", list)
		if err != nil || !found {
			continue
		}
		for _, one := range containers {
			container, ok := one.(map[string]any)
			name, _ := container["name"].(string)
			key := name
			image, given := images[key]
			if !given {
				key = everyContainer
				image, given = images[key]
			}
			if ok && given {
				container["image"], used[key] = image, true
			}
		}
		if err := unstructured.SetNestedSlice(object.Object, containers, "spec", "template", "spec", list); err != nil {
			return fmt.Errorf("%s: setting images: %w", title, err)
		}
	}
	for name := range images {
		if !used[name] && name != everyContainer {
			return options.Usagef("%s has no container %s: it has %s", title, name, strings.Join(resolver.Containers(object), ", "))
		}
	}
	return nil
}

// completeContainers completes the name of the set, and then containers.
func (v *verb) completeContainers(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return resolver.Complete(v.Options)(cmd, args, word)
	}
	return resolver.CompleteContainers(v.Options)(cmd, args, word)
}
