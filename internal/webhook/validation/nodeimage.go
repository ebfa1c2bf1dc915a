// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// MostImages is the maximum number of images of a NodeImage.
const MostImages = 256

// NodeImage validates a new or changed NodeImage of any version, after defaulting; old is nil for a new one.
func NodeImage(obj, old map[string]any) Result {
	if obj["spec"] == nil || old != nil && reflect.DeepEqual(obj["spec"], old["spec"]) {
		return Result{}
	}
	into := v1beta1.NodeImage{}
	errs, ok := decodeSpec(obj, &into, "a node image")
	if !ok {
		return Result{Errors: errs}
	}
	path := field.NewPath("spec", "images")
	images := into.Spec.Images
	if len(images) > MostImages {
		errs = append(errs, field.Invalid(path, len(images), fmt.Sprintf("spec images length %d can not be more than %d", len(images), MostImages)))
	}
	for _, name := range slices.Sorted(maps.Keys(images)) {
		if name == "" {
			errs = append(errs, field.Required(path.Key(name), "image name can not be empty"))
		}
		errs = append(errs, imageTags(name, images[name].Tags, path.Key(name).Child("tags"))...)
	}
	return Result{Errors: errs}
}

func imageTags(name string, tags []v1beta1.ImageTagSpec, path *field.Path) field.ErrorList {
	errs, seen := field.ErrorList{}, map[string]bool{}
	for i := range tags {
		tag, at := &tags[i], path.Index(i)
		switch {
		case tag.Tag == "":
			errs = append(errs, field.Required(at.Child("tag"), fmt.Sprintf("tag for image %s can not be empty", name)))
		case seen[tag.Tag]:
			duplicate := field.Duplicate(at.Child("tag"), tag.Tag)
			duplicate.Detail = fmt.Sprintf("duplicated tag %s for image %s", tag.Tag, name)
			errs = append(errs, duplicate)
		}
		seen[tag.Tag] = true
		fullName := name + "/" + tag.Tag
		if tag.CreatedAt == nil {
			errs = append(errs, field.Required(at.Child("createdAt"), fmt.Sprintf("createAt field for %s can not be empty", fullName)))
		}
		if tag.Version < 0 {
			errs = append(errs, field.Invalid(at.Child("version"), tag.Version, fmt.Sprintf("version for %s can not be less than 0", fullName)))
		}
		if tag.PullPolicy == nil {
			errs = append(errs, field.Required(at.Child("pullPolicy"), fmt.Sprintf("pullPolicy field for %s must set", fullName)))
		}
	}
	return errs
}
