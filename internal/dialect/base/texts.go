// SPDX-License-Identifier: Apache-2.0

package base

import (
	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/dialect"
)

// Texts are those that all dialects have.
func Texts() *dialect.Texts {
	return &dialect.Texts{
		Created: ReasonSuccessfulCreate, CreatedText: MessageSuccessfulCreate,
		CreateFailed: ReasonFailedCreate, CreateFailedText: MessageFailedCreate,
		Deleted: ReasonSuccessfulDelete, DeletedText: MessageSuccessfulDelete,
		DeleteFailed: ReasonFailedDelete, DeleteFailedText: MessageFailedDelete,
		Note: Event,
	}
}

// DaemonSets returns a dialect of the DaemonSets of apps/v1, without the functions that read them and write their status. The probe for other controllers is
// never reconciled.
func DaemonSets(name string, s dialect.Setting) dialect.Dialect {
	gvk := appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	return dialect.Dialect{
		Source: dialect.Source{
			Dialect: name, Resource: gvk.GroupVersion().WithResource("daemonsets"), Kind: gvk.Kind,
			Ignore: func(namespace, name string) bool { return namespace == s.Namespace && name == everynode.ProbeName },
		},
		GVK: gvk, MayWrite: s.MayWrite, Texts: Texts(),
	}
}
