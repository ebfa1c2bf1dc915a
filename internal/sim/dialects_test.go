// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apijson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"everynode.dev/everynode/api/everynode"
	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialect/native"
	yurt "everynode.dev/everynode/internal/dialect/openyurt"
)

// The dialects of runs. Edge is the native one with the annotations of OpenYurt.
const (
	nativeRun = "native"
	kruiseRun = "kruise"
	edgeRun   = "edge"
)

// newSet is the set of a run.
func (c config) newSet(now time.Time) *unstructured.Unstructured {
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "DaemonSet",
		"metadata": map[string]any{
			"namespace": namespace, "name": setName, "uid": "set-1", "generation": int64(1), "creationTimestamp": now.Format(time.RFC3339),
		},
		"spec": map[string]any{
			"selector":             map[string]any{"matchLabels": map[string]any{"app": "x"}},
			"minReadySeconds":      int64(c.minReady),
			"revisionHistoryLimit": int64(2),
			"updateStrategy": map[string]any{
				"type":          "RollingUpdate",
				"rollingUpdate": map[string]any{"maxUnavailable": amount(c.unavailable), "maxSurge": amount(c.surge)},
			},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "x"}},
				"spec": map[string]any{
					"nodeSelector": map[string]any{poolLabel: "a"},
					"containers":   []any{map[string]any{"name": "c", "image": "v1"}},
				},
			},
		},
	}}
	switch c.dialect {
	case kruiseRun:
		set.SetAPIVersion(api.Group + "/" + api.VersionStored)
		c.advance(set.Object["spec"].(map[string]any))
		if c.with("gates") {
			annotate(set, everynode.InPlaceGate, "true")
		}
		if c.waitsForImages() {
			annotate(set, api.PredownloadTimeout, words("%d", int(pullTimeout.Seconds())))
		}
		set.Object["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)["labels"].(map[string]any)[blockLabel] = "true"
	case edgeRun:
		set.Object["spec"].(map[string]any)["updateStrategy"] = map[string]any{"type": "OnDelete"}
		set.SetAnnotations(map[string]string{
			appsv1.DeprecatedTemplateGeneration: "1", openyurt.UpdateStrategy: string(openyurt.AdvancedRollingUpdate), openyurt.MaxUnavailable: c.unavailable,
		})
	default:
		set.SetAnnotations(map[string]string{appsv1.DeprecatedTemplateGeneration: "1"})
	}
	if c.dialect == alongsideRun {
		c.onDelete(set)
	}
	return set
}

// advance gives a set what only an Advanced DaemonSet has.
func (c config) advance(spec map[string]any) {
	if c.with("hooks") {
		spec["lifecycle"] = preDelete(false)
	}
	if c.with("restarts") || c.readsLabels() {
		template := spec["template"].(map[string]any)["spec"].(map[string]any)
		template["containers"] = append(template["containers"].([]any), map[string]any{"name": side, "image": side})
	}
	if c.readsLabels() {
		c.addTier(spec["template"].(map[string]any))
	} else if c.with("restarts") {
		askForRestart(spec["template"].(map[string]any))
	}
	if c.with("inplace") && c.surge == "0" {
		spec["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)["rollingUpdateType"] = "InPlaceIfPossible"
	}
}

func preDelete(notReady bool) map[string]any {
	return map[string]any{"preDelete": map[string]any{"labelsHandler": map[string]any{blockLabel: "true"}, "markPodNotReady": notReady}}
}

// dialect is the dialect of a run, as the manager wires it.
func (s *sim) dialect() dialect.Dialect {
	switch s.cfg.dialect {
	case kruiseRun:
		return kruiseDialect()
	case edgeRun:
		d := nativeDialect()
		d.Source.Digest, d.StatusPatch, d.Announce = yurt.Digest, yurt.StatusPatch, yurt.Announce
		d.MayAnnotate = func() bool { return !s.yurt }
		return d
	case alongsideRun:
		return byPolicy()
	default:
		return nativeDialect()
	}
}

func nativeDialect() dialect.Dialect {
	gvk := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}
	return dialect.Dialect{
		Source:      dialect.Source{Dialect: "native", Resource: gvk.GroupVersion().WithResource("daemonsets"), Kind: gvk.Kind, Digest: native.Digest},
		GVK:         gvk,
		StatusPatch: native.StatusPatch,
		Texts: &dialect.Texts{
			Created: native.ReasonSuccessfulCreate, CreatedText: native.MessageSuccessfulCreate,
			CreateFailed: native.ReasonFailedCreate, CreateFailedText: native.MessageFailedCreate,
			Deleted: native.ReasonSuccessfulDelete, DeletedText: native.MessageSuccessfulDelete,
			DeleteFailed: native.ReasonFailedDelete, DeleteFailedText: native.MessageFailedDelete, Note: native.Event,
		},
	}
}

func kruiseDialect() dialect.Dialect {
	gvk := schema.GroupVersionKind{Group: api.Group, Version: api.VersionStored, Kind: api.Kind}
	return dialect.Dialect{
		Source:      dialect.Source{Dialect: "kruise", Resource: gvk.GroupVersion().WithResource(api.Resource), Kind: gvk.Kind, Digest: kruise.Digest},
		GVK:         gvk,
		StatusPatch: kruise.Report,
		Edits:       kruise.Edits{},
		InPlace:     kruise.InPlace,
		Texts: &dialect.Texts{
			Created: base.ReasonSuccessfulCreate, CreatedText: base.MessageSuccessfulCreate,
			CreateFailed: base.ReasonFailedCreate, CreateFailedText: base.MessageFailedCreate,
			Deleted: base.ReasonSuccessfulDelete, DeletedText: base.MessageSuccessfulDelete,
			DeleteFailed: base.ReasonFailedDelete, DeleteFailedText: base.MessageFailedDelete,
			Patched: kruise.ReasonSuccessfulUpdatePodInPlace, PatchedText: kruise.MessageSuccessfulUpdatePodInPlace,
			PatchFailed: kruise.ReasonFailedUpdatePodInPlace, PatchFailedText: kruise.MessageFailedUpdatePodInPlace, Note: base.Event,
		},
	}
}

func (c config) facts() dialect.FactsFunc {
	switch c.dialect {
	case kruiseRun:
		return kruise.Facts
	case edgeRun:
		return yurt.Facts
	default:
		return nil
	}
}

// merge is how the API server patches the status of the set: strategically where it knows the type.
func (c config) merge() func(set *unstructured.Unstructured, patch []byte) (map[string]any, error) {
	return func(set *unstructured.Unstructured, patch []byte) (map[string]any, error) {
		before, err := json.Marshal(set.Object)
		if err != nil {
			return nil, err
		}
		var after []byte
		if isKruise(set) {
			after, err = jsonpatch.MergePatch(before, patch)
		} else {
			after, err = strategicpatch.StrategicMergePatch(before, patch, &appsv1.DaemonSet{})
		}
		if err != nil {
			return nil, err
		}
		var patched map[string]any
		return patched, apijson.Unmarshal(after, &patched)
	}
}
