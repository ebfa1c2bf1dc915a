// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"fmt"
	"maps"

	"everynode.dev/everynode/api/kruise"
)

const (
	apiVersionAlpha = kruise.Group + "/" + kruise.VersionAlpha
	apiVersionBeta  = kruise.Group + "/" + kruise.VersionBeta
)

// Convert returns obj, a DaemonSet of a version of the group, as one of apiVersion. The result shares unchanged parts
// with obj, which is not changed.
func Convert(obj map[string]any, apiVersion string) (map[string]any, error) {
	from, _ := obj["apiVersion"].(string)
	if kind, _ := obj["kind"].(string); kind != kruise.Kind {
		return nil, fmt.Errorf("cannot convert an object of kind %q: only %s of %s can be converted", kind, kruise.Kind, kruise.Group)
	}
	e := edit{maps.Clone(obj)}
	switch {
	case from == apiVersion && (from == apiVersionAlpha || from == apiVersionBeta):
		return obj, nil
	case from == apiVersionAlpha && apiVersion == apiVersionBeta:
		e.up()
	case from == apiVersionBeta && apiVersion == apiVersionAlpha:
		e.down()
	default:
		return nil, fmt.Errorf("cannot convert from apiVersion %q to %q: known are %s and %s", from, apiVersion, apiVersionAlpha, apiVersionBeta)
	}
	e.obj["apiVersion"] = apiVersion
	return e.obj, nil
}

func (e edit) up() {
	e.surgingUp()
	e.scalingUp()
	e.renameStatus("daemonSetHash", "updateRevision")
}

func (e edit) down() {
	e.surgingDown()
	e.scalingDown()
	e.renameStatus("updateRevision", "daemonSetHash")
}

// edit is an object during conversion: changed parts are copied.
type edit struct {
	obj map[string]any
}

// at returns a copy of the object at the path that can be changed, or nil.
func (e edit) at(path ...string) map[string]any {
	m := e.obj
	for _, key := range path {
		child, ok := m[key].(map[string]any)
		if !ok {
			return nil
		}
		child = maps.Clone(child)
		m[key] = child
		m = child
	}
	return m
}

// annotation returns an annotation of the object.
func (e edit) annotation(key string) (value string, ok bool) {
	metadata, _ := e.obj["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, ok = annotations[key].(string)
	return value, ok
}

func (e edit) annotate(key, value string) {
	if e.at("metadata") == nil {
		e.obj["metadata"] = map[string]any{}
	}
	if e.at("metadata", "annotations") == nil {
		e.at("metadata")["annotations"] = map[string]any{}
	}
	e.at("metadata", "annotations")[key] = value
}

// unannotate removes an annotation, and an empty map of annotations.
func (e edit) unannotate(key string) {
	if _, ok := e.annotation(key); !ok {
		return
	}
	annotations := e.at("metadata", "annotations")
	delete(annotations, key)
	if len(annotations) == 0 {
		delete(e.at("metadata"), "annotations")
	}
}

func (e edit) renameStatus(from, to string) {
	status := e.at("status")
	if value, ok := status[from]; ok {
		delete(status, from)
		status[to] = value
	}
}
