// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/controller/conflict"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/fleet/feed"
)

// nativeDialect is the name of the dialect of apps/v1.
const nativeDialect = "native"

// dialectNames are the dialects that can be named in --dialects.
func dialectNames() []string { return []string{nativeDialect} }

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
