// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/webhook/conversion"
)

// readFile reads a file or standard input.
func readFile(o *options.Options, name string) ([]byte, error) {
	if name == "-" {
		data, err := io.ReadAll(o.In)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", o.InName, err)
		}
		return data, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the file: %w", err)
	}
	return data, nil
}

// manifest reads the DaemonSet in a file: one object, as YAML or JSON. Its default namespace is the namespace of the clients.
func manifest(data []byte, namespace string) (*resolver.Set, error) {
	data, err := single(data)
	if err != nil {
		return nil, err
	}
	object := map[string]any{}
	if err := yaml.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("reading the file: %w", err)
	}
	u := &unstructured.Unstructured{Object: normal(object)}
	alpha := kruiseapi.Group + "/" + kruiseapi.VersionAlpha
	if u.GetAPIVersion() == alpha && u.GetKind() == kruiseapi.Kind {
		converted, err := conversion.Convert(u.Object, kruiseapi.Group+"/"+kruiseapi.VersionStored)
		if err != nil {
			return nil, fmt.Errorf("reading the file: %w", err)
		}
		u.Object = converted
	}
	for _, d := range dialects.Onlookers() {
		if u.GroupVersionKind() != d.GVK {
			continue
		}
		if err := nameOf(u.GetName()); err != nil {
			return nil, fmt.Errorf("reading the file: %w", err)
		}
		if u.GetNamespace() == "" {
			u.SetNamespace(namespace)
		}
		return &resolver.Set{Source: d.Source, Dialect: d, Resource: d.Source.Resource, Kind: d.Source.Kind, Object: u}, nil
	}
	return nil, fmt.Errorf("the file holds %s: write one DaemonSet of apps/v1 or of %s in it, and nothing else", kindOf(u), kruiseapi.Group)
}

// kindOf returns the kind of an object, for errors.
func kindOf(u *unstructured.Unstructured) string {
	version, kind := u.GetAPIVersion(), u.GetKind()
	switch {
	case kind == "":
		return "an object without a kind"
	case version == "":
		return kind + " without an apiVersion"
	default:
		return version + " " + kind
	}
}

// single returns the only document of a YAML file. If there are several, the decoder would read the first one and
// silently ignore the others.
func single(data []byte) ([]byte, error) {
	found, err := documents(data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the file: %w", err)
	case len(found) == 0:
		return nil, fmt.Errorf("the file is empty: write one DaemonSet of apps/v1 or of %s in it", kruiseapi.Group)
	case len(found) > 1:
		return nil, errors.New("the file holds several objects: a plan is for one daemon set, so write each in a file of its own")
	}
	return found[0], nil
}

// documents returns the documents of a YAML file that hold something.
func documents(data []byte) (found [][]byte, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, err //nolint:wrapcheck // the caller names the file
		}
		var content any
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, err //nolint:wrapcheck // the caller names the file
		}
		if content != nil { // else it has only comments
			found = append(found, document)
		}
	}
}

// normal converts decoded YAML to the types of the API machinery: whole numbers are int64.
func normal(object map[string]any) map[string]any {
	data, err := json.Marshal(object)
	if err != nil {
		return object // it was decoded from JSON, so it can be encoded
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		return object // without kind or version: reported later
	}
	return u.Object
}

// fromFile returns the edit that applies a file to a set, as kubectl apply does: fields of the file are set, fields
// that only the last applied version had are removed, and all other fields stay.
func fromFile(live, wanted *resolver.Set) (Edit, error) {
	modified, err := json.Marshal(wanted.Object.Object)
	if err != nil {
		return Edit{}, fmt.Errorf("encoding the file: %w", err)
	}
	if live == nil {
		return Edit{Type: typeCreate, Patch: modified}, nil
	}
	var original []byte
	if last := live.Object.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; last != "" {
		original = []byte(last)
	}
	current, err := json.Marshal(live.Object.Object)
	if err != nil {
		return Edit{}, fmt.Errorf("encoding %s: %w", live, err)
	}
	e := Edit{Type: string(types.MergePatchType)}
	if live.Advanced() {
		if original == nil {
			original = modified
		}
		e.Patch, err = jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
	} else {
		e.Type = string(types.StrategicMergePatchType)
		var meta strategicpatch.PatchMetaFromStruct
		if meta, err = strategicpatch.NewPatchMetaFromStruct(appsv1.DaemonSet{}); err == nil {
			e.Patch, err = strategicpatch.CreateThreeWayMergePatch(original, modified, current, meta, true)
		}
	}
	if err != nil {
		return Edit{}, fmt.Errorf("comparing the file with %s: %w", live, err)
	}
	return e, nil
}
