// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
)

// Name is the name of the dialect.
const Name = "kruise"

// Registration is the dialect.
func Registration() dialect.Registration {
	return dialect.Registration{
		Name: Name, Default: true, Does: "keeps the pods of DaemonSets of apps.kruise.io, and pulls images", New: newDialect, Facts: Facts, Optional: true,
		Peer: &dialect.Peer{
			Name: "OpenKruise's own manager", Dialect: Name, Namespace: "kruise-system", Leases: []string{"kruise-manager"},
			Remedy: "scale that manager to zero",
		},
		Roles: roles(),
	}
}

func newDialect(s dialect.Setting) dialect.Dialect {
	gvk := schema.GroupVersionKind{Group: kruise.Group, Version: kruise.VersionStored, Kind: kruise.Kind}
	d := dialect.Dialect{
		Source: dialect.Source{Dialect: Name, Resource: gvk.GroupVersion().WithResource(kruise.Resource), Kind: gvk.Kind, Digest: digestFor(s.MayHold)},
		GVK:    gvk, StatusPatch: Report, Edits: Edits{}, InPlace: InPlaceWithResize, MayWrite: s.MayWrite, Texts: base.Texts(),
	}
	if s.NoResize {
		d.InPlace = InPlace
	}
	d.Texts.Patched, d.Texts.PatchedText = ReasonSuccessfulUpdatePodInPlace, MessageSuccessfulUpdatePodInPlace
	d.Texts.PatchFailed, d.Texts.PatchFailedText = ReasonFailedUpdatePodInPlace, MessageFailedUpdatePodInPlace
	return d
}
