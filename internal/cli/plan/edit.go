// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/imageref"
)

// typeCreate is the type of an edit that creates a set; the others are the media types of patches.
const typeCreate = "create"

// Edit is exactly what is sent to the API server.
type Edit struct {
	// Type is the media type of a patch, or "create".
	Type string `json:"type"`
	// Patch is the patch, or the object to create.
	Patch json.RawMessage `json:"patch"`
}

// editFlags are the flags that describe the edit.
type editFlags struct {
	file                                string
	images                              []string
	partition, maxUnavailable, maxSurge string
	strategy, selector, patch           string
	paused, inPlace                     bool
	// given are the names of the given flags, in their order.
	given []string
}

func (w *editFlags) has(flag string) bool {
	for _, name := range w.given {
		if name == flag {
			return true
		}
	}
	return false
}

// advancedOnly returns the flags for which DaemonSets of apps/v1 have no field.
func advancedOnly() []string { return []string{"partition", "paused", "selector", "in-place"} }

// check validates the flags, independent of the set.
func (w *editFlags) check() error {
	if w.patch != "" {
		if len(w.given) > 1 {
			return options.Usagef("--patch contains the whole edit: leave --%s out", other(w.given, "patch"))
		}
		if err := isObject([]byte(w.patch)); err != nil {
			return options.Usagef("--patch is no JSON object: %w", err)
		}
		return nil
	}
	for _, image := range w.images {
		if _, _, err := imageOf(image); err != nil {
			return err
		}
	}
	return w.fields(&builder{object: map[string]any{}})
}

// isObject returns an error unless a text is a JSON object. The word null can be decoded into a map too.
func isObject(text []byte) error {
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return err //nolint:wrapcheck // the caller adds the context
	}
	if object == nil {
		return errors.New("it is null: write what is to be changed, such as {\"spec\":{\"minReadySeconds\":5}}")
	}
	return nil
}

// edit converts validated flags to the edit of a set.
func (w *editFlags) edit(set *resolver.Set) (Edit, error) {
	if w.patch != "" {
		return w.raw(set), nil
	}
	if !set.Advanced() {
		for _, flag := range advancedOnly() {
			if w.has(flag) {
				return Edit{}, options.Usagef("--%s: a DaemonSet of apps/v1 has no field for that; an Advanced DaemonSet has, and %s migrate %s makes it one without a restart",
					flag, options.Program, set)
			}
		}
	}
	b := &builder{object: runtime.DeepCopyJSON(set.Object.Object), ops: []operation{}}
	if err := w.fields(b); err != nil {
		return Edit{}, err
	}
	for _, image := range everyFirst(w.images) {
		if err := b.image(image); err != nil {
			return Edit{}, err
		}
	}
	patch, err := json.Marshal(b.ops)
	if err != nil {
		return Edit{}, fmt.Errorf("encoding the patch: %w", err)
	}
	return Edit{Type: string(types.JSONPatchType), Patch: patch}, nil
}

// raw returns the edit that was given as a patch.
func (w *editFlags) raw(set *resolver.Set) Edit {
	kind := types.MergePatchType
	if !set.Advanced() {
		kind = types.StrategicMergePatchType
	}
	return Edit{Type: string(kind), Patch: json.RawMessage(w.patch)}
}

func other(names []string, name string) string {
	for _, n := range names {
		if n != name {
			return n
		}
	}
	return ""
}

// fields adds the changes of single fields.
func (w *editFlags) fields(b *builder) error {
	rolling := []string{"spec", "updateStrategy", "rollingUpdate"}
	edge := edgeOf(&unstructured.Unstructured{Object: b.object})
	for _, q := range []struct{ flag, value, field string }{
		{"max-unavailable", w.maxUnavailable, "maxUnavailable"},
		{"max-surge", w.maxSurge, "maxSurge"},
		{"partition", w.partition, "partition"},
	} {
		if !w.has(q.flag) {
			continue
		}
		if strategy, asked := edge[openyurt.UpdateStrategy]; asked && q.flag != "partition" {
			if err := b.edge(strategy, q.flag, q.value); err != nil {
				return err
			}
			continue
		}
		value, err := quantity(q.flag, q.value)
		if err != nil {
			return err
		}
		b.set(value, append(rolling, q.field)...)
	}
	if w.has("paused") {
		b.set(w.paused, append(rolling, "paused")...)
	}
	if w.has("in-place") {
		way := "Standard"
		if w.inPlace {
			way = "InPlaceIfPossible"
		}
		b.set(way, append(rolling, "rollingUpdateType")...)
	}
	if w.has("selector") {
		if err := w.canary(b, append(rolling, "selector")); err != nil {
			return err
		}
	}
	if w.has("strategy") {
		if w.strategy != "RollingUpdate" && w.strategy != "OnDelete" {
			return options.Usagef("--strategy %q is not known: write RollingUpdate or OnDelete", w.strategy)
		}
		if w.strategy == "OnDelete" {
			b.drop(rolling...) // RollingUpdate fields have no meaning then, and apps/v1 rejects them
		}
		b.set(w.strategy, "spec", "updateStrategy", "type")
	}
	return nil
}

// canary restricts the update to some nodes, or removes that restriction.
func (w *editFlags) canary(b *builder, path []string) error {
	if w.selector == "" {
		b.drop(path...)
		return nil
	}
	selector, err := options.Selector(w.selector)
	if err != nil {
		return options.Usagef("--selector %q selects no nodes: %w", w.selector, err)
	}
	value, err := runtime.DefaultUnstructuredConverter.ToUnstructured(selector)
	if err != nil {
		return fmt.Errorf("encoding the selector: %w", err)
	}
	b.set(value, path...)
	return nil
}

// quantity parses a number or a percentage, as in the API.
func quantity(flag, text string) (any, error) {
	if value, ok := options.Quantity(text); ok {
		return value, nil
	}
	if options.TooLarge(text) {
		return nil, options.Usagef("--%s %s is too large: %s", flag, text, options.Largest)
	}
	return nil, options.Usagef("--%s %q: write a number of nodes such as 3, or a percentage from 0%% to 100%%", flag, text)
}

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// builder builds a JSON patch against an object, and changes the object too. Fields that already have the value are
// omitted.
type builder struct {
	object map[string]any
	ops    []operation
}

// set sets the field at the path, and creates missing parents.
func (b *builder) set(value any, path ...string) {
	at := b.object
	for i, key := range path[:len(path)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[key] = next
			b.ops = append(b.ops, operation{"add", pointer(path[:i+1]...), map[string]any{}})
		}
		at = next
	}
	last := path[len(path)-1]
	if have, ok := at[last]; ok && reflect.DeepEqual(have, value) {
		return
	}
	at[last] = value
	b.ops = append(b.ops, operation{"add", pointer(path...), value})
}

// drop removes the field at the path if it exists.
func (b *builder) drop(path ...string) {
	at := b.object
	for _, key := range path[:len(path)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			return
		}
		at = next
	}
	last := path[len(path)-1]
	if _, ok := at[last]; ok {
		delete(at, last)
		b.ops = append(b.ops, operation{Op: "remove", Path: pointer(path...)})
	}
}

// everyContainer means all containers, as for set-image.
const everyContainer = "*"

// everyFirst returns the images in the order in which they are set: the image of one container overrides the image for
// all.
func everyFirst(images []string) []string {
	ofAll := func(text string) bool { return strings.HasPrefix(text, everyContainer+"=") }
	return slices.Concat(slices.DeleteFunc(slices.Clone(images), func(text string) bool { return !ofAll(text) }), slices.DeleteFunc(slices.Clone(images), ofAll))
}

// imageOf parses the value of --image.
func imageOf(text string) (container, image string, err error) {
	container, image, ok := strings.Cut(text, "=")
	if !ok || container == "" || image == "" {
		return "", "", options.Usagef("--image %q: write CONTAINER=IMAGE", text)
	}
	if _, _, err := imageref.Split(image); err != nil {
		return "", "", options.Usagef("--image: %q cannot be the image of container %s: %w", image, container, err)
	}
	return container, image, nil
}

// image changes the image of one container, which must still be at the same index, or of all.
func (b *builder) image(text string) error {
	name, image, err := imageOf(text)
	if err != nil {
		return err
	}
	var names []string
	found := name == everyContainer
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := nested(b.object, "spec", "template", "spec")[list].([]any)
		for i, c := range containers {
			container, _ := c.(map[string]any)
			have, _ := container["name"].(string)
			names = append(names, have)
			if have != name && name != everyContainer {
				continue
			}
			found = true
			if container["image"] != image {
				container["image"] = image
				at := []string{"spec", "template", "spec", list, strconv.Itoa(i)}
				b.ops = append(b.ops, operation{"test", pointer(append(at, "name")...), have}, operation{"replace", pointer(append(at, "image")...), image})
			}
		}
	}
	if !found {
		return options.Usagef("--image %s: the template has no container %q: it has %s", text, name, strings.Join(names, ", "))
	}
	return nil
}

// nested returns the object at the path, or nil.
func nested(object map[string]any, path ...string) map[string]any {
	for _, key := range path {
		object, _ = object[key].(map[string]any)
	}
	return object
}

// pointer returns a JSON pointer.
func pointer(path ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, key := range path {
		b.WriteString("/" + escape.Replace(key))
	}
	return b.String()
}

// guarded returns the edit with a precondition: the API server rejects it with a conflict unless the set has this UID
// and version.
func (e Edit) guarded(uid types.UID, version string) (Edit, error) {
	var guarded any
	if e.Type == string(types.JSONPatchType) {
		var ops []json.RawMessage
		if err := json.Unmarshal(e.Patch, &ops); err != nil {
			return Edit{}, fmt.Errorf("reading the patch: %w", err)
		}
		all := []any{operation{"add", "/metadata/uid", string(uid)}, operation{"add", "/metadata/resourceVersion", version}}
		for _, op := range ops {
			all = append(all, op)
		}
		guarded = all
	} else {
		patch := map[string]any{}
		if err := json.Unmarshal(e.Patch, &patch); err != nil {
			return Edit{}, fmt.Errorf("reading the patch: %w", err)
		}
		metadata, _ := patch["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata["uid"], metadata["resourceVersion"] = string(uid), version
		patch["metadata"] = metadata
		guarded = patch
	}
	data, err := json.Marshal(guarded)
	if err != nil {
		return Edit{}, fmt.Errorf("encoding the patch: %w", err)
	}
	return Edit{Type: e.Type, Patch: data}, nil
}

// check validates an edit that comes from a file.
func (e Edit) check() error {
	switch e.Type {
	case string(types.JSONPatchType):
		var steps []json.RawMessage
		if err := json.Unmarshal(e.Patch, &steps); err != nil || steps == nil {
			return fmt.Errorf("edit.patch is not a list of steps, as edit.type %s wants it: write it with plan -o json", e.Type)
		}
		return nil
	case typeCreate, string(types.MergePatchType), string(types.StrategicMergePatchType):
		if isObject(e.Patch) != nil {
			return fmt.Errorf("edit.patch is no JSON object, as edit.type %s wants it: write it with plan -o json", e.Type)
		}
		return nil
	default:
		return fmt.Errorf("edit.type %q is not known: the file is not a plan, or comes from another version", e.Type)
	}
}

// nameOf validates the name of a new set.
func nameOf(name string) error {
	if wrong := validation.NameIsDNSSubdomain(name, false); len(wrong) > 0 {
		return fmt.Errorf("metadata.name %q: %s", name, strings.Join(wrong, "; "))
	}
	return nil
}
