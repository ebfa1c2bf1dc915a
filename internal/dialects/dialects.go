// SPDX-License-Identifier: Apache-2.0

package dialects

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/everynode"
	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/dialect/openyurt"
)

// The names of the dialects: that of apps/v1, that of apps.kruise.io, and that of OpenYurt's annotations on apps/v1.
const (
	Native   = "native"
	Kruise   = "kruise"
	OpenYurt = "openyurt"
)

// Names are the dialects that can be named in --dialects.
func Names() []string { return []string{Native, Kruise, OpenYurt} }

// Defaults are the dialects that are served unless told otherwise.
func Defaults() []string { return []string{Native, Kruise} }

// NewNative is the native dialect; probeNamespace is where the probe for other controllers lives, which is never reconciled.
func NewNative(probeNamespace string, mayWrite func() bool) dialect.Dialect {
	gvk := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}
	return dialect.Dialect{
		Source: dialect.Source{
			Dialect: Native, Resource: gvk.GroupVersion().WithResource("daemonsets"), Kind: gvk.Kind, Digest: native.Digest,
			Ignore: func(namespace, name string) bool { return namespace == probeNamespace && name == everynode.ProbeName },
		},
		GVK:         gvk,
		StatusPatch: native.StatusPatch,
		MayWrite:    mayWrite,
		Texts: &dialect.Texts{
			Created: native.ReasonSuccessfulCreate, CreatedText: native.MessageSuccessfulCreate,
			CreateFailed: native.ReasonFailedCreate, CreateFailedText: native.MessageFailedCreate,
			Deleted: native.ReasonSuccessfulDelete, DeletedText: native.MessageSuccessfulDelete,
			DeleteFailed: native.ReasonFailedDelete, DeleteFailedText: native.MessageFailedDelete,
			Note: native.Event,
		},
	}
}

// NewEdge is the native dialect with OpenYurt's annotations read as well: one object is one set, with one decision.
func NewEdge(probeNamespace string, mayWrite, mayAnnotate func() bool) dialect.Dialect {
	d := NewNative(probeNamespace, mayWrite)
	d.Source.Digest, d.StatusPatch = openyurt.Digest, openyurt.StatusPatch
	d.Announce, d.MayAnnotate = openyurt.Announce, mayAnnotate
	d.Texts.AnnounceFailed, d.Texts.AnnounceFailedText = openyurt.ReasonFailedCondition, openyurt.MessageFailedCondition
	return d
}

// NewGuest is the dialect of OpenYurt where another controller keeps the pods.
func NewGuest(probeNamespace string, mayWrite func() bool) dialect.Dialect {
	d := NewNative(probeNamespace, mayWrite)
	d.Source.Dialect, d.Source.Digest, d.StatusPatch = OpenYurt, openyurt.DigestGuest, openyurt.GuestPatch
	d.Announce = openyurt.Announce
	d.Texts.AnnounceFailed, d.Texts.AnnounceFailedText = openyurt.ReasonFailedCondition, openyurt.MessageFailedCondition
	return d
}

// FactsOf reads what the dialects that are served need to know of a pod.
func FactsOf(served []string) dialect.FactsFunc {
	ofKruise, ofOpenYurt := slices.Contains(served, Kruise), slices.Contains(served, OpenYurt)
	return func(p *corev1.Pod) *dialect.PodFacts {
		var f *dialect.PodFacts
		if ofKruise {
			f = kruise.Facts(p)
		}
		if f == nil && ofOpenYurt {
			f = openyurt.Facts(p)
		}
		return f
	}
}

// Servings say which dialect does what, for the log.
func Servings(served []string) map[string]string {
	all := map[string]string{}
	edge := slices.Contains(served, OpenYurt)
	for _, name := range served {
		switch name {
		case Native:
			all[name] = "keeps the pods of DaemonSets of apps/v1"
			if edge {
				all[name] += ", and reads the annotations of OpenYurt on them"
			}
		case Kruise:
			all[name] = "keeps the pods of DaemonSets of apps.kruise.io, and pulls images"
		case OpenYurt:
			all[name] = "reads the annotations of OpenYurt on DaemonSets of apps/v1, beside the controller that keeps their pods"
			if slices.Contains(served, Native) {
				all[name] = "is part of the dialect " + Native + ": one decision for each DaemonSet"
			}
		}
	}
	return all
}

// Onlookers are the dialects for who writes nothing: DaemonSets of apps/v1 with the annotations of OpenYurt on them, and those of
// apps.kruise.io.
func Onlookers() []dialect.Dialect {
	never := func() bool { return false }
	return []dialect.Dialect{NewEdge("", never, nil), NewKruise(never)}
}

// NewKruise is the dialect of OpenKruise's Advanced DaemonSet.
func NewKruise(mayWrite func() bool) dialect.Dialect {
	gvk := schema.GroupVersionKind{Group: kruiseapi.Group, Version: kruiseapi.VersionStored, Kind: kruiseapi.Kind}
	return dialect.Dialect{
		Source: dialect.Source{
			Dialect: Kruise, Resource: gvk.GroupVersion().WithResource(kruiseapi.Resource), Kind: gvk.Kind, Digest: kruise.Digest,
		},
		GVK:         gvk,
		StatusPatch: kruise.Report,
		Edits:       kruise.Edits{},
		InPlace:     kruise.InPlace,
		MayWrite:    mayWrite,
		Texts: &dialect.Texts{
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
