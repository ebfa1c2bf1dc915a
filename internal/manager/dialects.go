// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/controller/conflict"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/fleet/feed"
)

// Names of the dialects: that of apps/v1, and that of apps.kruise.io.
const (
	nativeDialect = "native"
	kruiseDialect = "kruise"
)

// dialectNames are the dialects that can be named in --dialects.
func dialectNames() []string { return []string{nativeDialect, kruiseDialect} }

// newNative is the native dialect; probeNamespace is where the probe for other controllers lives, which is never reconciled.
func newNative(probeNamespace string, mayWrite func() bool) daemonset.Dialect {
	gvk := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}
	return daemonset.Dialect{
		Source: feed.Source{
			Dialect: nativeDialect, Resource: gvk.GroupVersion().WithResource("daemonsets"), Kind: gvk.Kind, Digest: native.Digest,
			Ignore: func(namespace, name string) bool { return namespace == probeNamespace && name == conflict.ProbeName },
		},
		GVK:         gvk,
		StatusPatch: native.StatusPatch,
		MayWrite:    mayWrite,
		Texts: &executor.Texts{
			Created: native.ReasonSuccessfulCreate, CreatedText: native.MessageSuccessfulCreate,
			CreateFailed: native.ReasonFailedCreate, CreateFailedText: native.MessageFailedCreate,
			Deleted: native.ReasonSuccessfulDelete, DeletedText: native.MessageSuccessfulDelete,
			DeleteFailed: native.ReasonFailedDelete, DeleteFailedText: native.MessageFailedDelete,
			Note: native.Event,
		},
	}
}

// newKruise is the dialect of OpenKruise's Advanced DaemonSet.
func newKruise(mayWrite func() bool) daemonset.Dialect {
	gvk := schema.GroupVersionKind{Group: kruiseapi.Group, Version: kruiseapi.VersionStored, Kind: kruiseapi.Kind}
	return daemonset.Dialect{
		Source: feed.Source{
			Dialect: kruiseDialect, Resource: gvk.GroupVersion().WithResource(kruiseapi.Resource), Kind: gvk.Kind, Digest: kruise.Digest,
		},
		GVK:         gvk,
		StatusPatch: kruise.Report,
		Edits:       kruise.Edits{},
		InPlace:     kruise.InPlace,
		MayWrite:    mayWrite,
		Texts: &executor.Texts{
			Created: base.ReasonSuccessfulCreate, CreatedText: base.MessageSuccessfulCreate,
			CreateFailed: base.ReasonFailedCreate, CreateFailedText: base.MessageFailedCreate,
			Deleted: base.ReasonSuccessfulDelete, DeletedText: base.MessageSuccessfulDelete,
			DeleteFailed: base.ReasonFailedDelete, DeleteFailedText: base.MessageFailedDelete,
			Patched: kruise.ReasonSuccessfulUpdatePodInPlace, PatchedText: kruise.MessageSuccessfulUpdatePodInPlace,
			PatchFailed: kruise.ReasonFailedUpdatePodInPlace, PatchFailedText: kruise.MessageFailedUpdatePodInPlace,
			Note: kruise.Event,
		},
	}
}
