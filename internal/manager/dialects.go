// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/controller/conflict"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/dialect/openyurt"
	"everynode.dev/everynode/internal/fleet/feed"
)

// Names of the dialects: that of apps/v1, that of apps.kruise.io, and that of OpenYurt's annotations on apps/v1.
const (
	nativeDialect   = "native"
	kruiseDialect   = "kruise"
	openyurtDialect = "openyurt"
)

// dialectNames are the dialects that can be named in --dialects, defaultDialects those that are served unless told otherwise.
func dialectNames() []string    { return []string{nativeDialect, kruiseDialect, openyurtDialect} }
func defaultDialects() []string { return []string{nativeDialect, kruiseDialect} }

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

// newEdge is the native dialect with OpenYurt's annotations read as well: one object is one set, with one decision.
func newEdge(probeNamespace string, mayWrite, mayAnnotate func() bool) daemonset.Dialect {
	d := newNative(probeNamespace, mayWrite)
	d.Source.Digest, d.StatusPatch = openyurt.Digest, openyurt.StatusPatch
	d.Announce, d.MayAnnotate = openyurt.Announce, mayAnnotate
	return d
}

// newGuest is the dialect of OpenYurt where another controller keeps the pods.
func newGuest(probeNamespace string, mayWrite func() bool) daemonset.Dialect {
	d := newNative(probeNamespace, mayWrite)
	d.Source.Dialect, d.Source.Digest, d.StatusPatch = openyurtDialect, openyurt.DigestGuest, openyurt.GuestPatch
	d.Announce = openyurt.Announce
	return d
}

// factsOf reads what the dialects that are served need to know of a pod.
func factsOf(served []string) dialect.FactsFunc {
	ofKruise, ofOpenYurt := slices.Contains(served, kruiseDialect), slices.Contains(served, openyurtDialect)
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

// servings say which dialect does what, for the log.
func servings(served []string) map[string]string {
	all := map[string]string{}
	edge := slices.Contains(served, openyurtDialect)
	for _, name := range served {
		switch name {
		case nativeDialect:
			all[name] = "keeps the pods of DaemonSets of apps/v1"
			if edge {
				all[name] += ", and reads the annotations of OpenYurt on them"
			}
		case kruiseDialect:
			all[name] = "keeps the pods of DaemonSets of apps.kruise.io, and pulls images"
		case openyurtDialect:
			all[name] = "reads the annotations of OpenYurt on DaemonSets of apps/v1, beside the controller that keeps their pods"
			if slices.Contains(served, nativeDialect) {
				all[name] = "is part of the dialect " + nativeDialect + ": one decision for each DaemonSet"
			}
		}
	}
	return all
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
