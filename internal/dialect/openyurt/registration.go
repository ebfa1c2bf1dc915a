// SPDX-License-Identifier: Apache-2.0

package openyurt

import (
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/rbac"
)

// Name is the name of the dialect.
const Name = "openyurt"

// Registration is the dialect.
func Registration() dialect.Registration {
	return dialect.Registration{
		Name: Name, Does: "reads the annotations of OpenYurt on DaemonSets of apps/v1, next to the controller that keeps their pods",
		Adds: "reads the annotations of OpenYurt on them", New: newExternal, Extend: extend, Facts: Facts, Peer: peer(), Roles: roles(),
	}
}

// extend is the dialect of apps/v1 with OpenYurt's annotations read as well.
func extend(d dialect.Dialect, s dialect.Setting) dialect.Dialect {
	d.Source.Digest, d.StatusPatch = Digest, StatusPatch
	d.MayAnnotate = s.MayWrite
	return announcing(d)
}

// newExternal is the dialect where another controller keeps the pods.
func newExternal(s dialect.Setting) dialect.Dialect {
	d := base.DaemonSets(Name, s)
	d.Source.Digest, d.StatusPatch = DigestExternal, ExternalPatch
	return announcing(d)
}

func announcing(d dialect.Dialect) dialect.Dialect {
	d.Announce = Announce
	d.Texts.AnnounceFailed, d.Texts.AnnounceFailedText = ReasonFailedCondition, MessageFailedCondition
	return d
}

// peer is yurt-manager. Its lease is named in openyurtio/openyurt, cmd/yurt-manager/app/options/generic.go, and since 1.4 otherwise by the
// value leaderElectResourceName of its chart; its controller is named in cmd/yurt-manager/names, and before 1.4 by the shorter name.
func peer() *dialect.Peer {
	return &dialect.Peer{
		Name: "OpenYurt's own yurt-manager", Dialect: Name, Namespace: "kube-system", Leases: []string{"yurt-manager", "cloud-yurt-manager"},
		Controller: []string{"daemonpodupdater", "daemon-pod-updater-controller"},
		Remedy:     "switch its controller daemonpodupdater off (kubectl everynode adopt openyurt)",
	}
}

func roles() []rbac.Role {
	return []rbac.Role{{
		Name: "everynode-manager-openyurt", Program: rbac.Manager, For: "the dialect openyurt",
		Rules: []rbac.Rule{
			{Resource: "pods/status", Verbs: []string{"patch"}, Why: "the condition PodNeedUpgrade"},
			{Group: "coordination.k8s.io", Resource: "leases", Names: []string{"yurt-manager", "cloud-yurt-manager"}, Verbs: []string{"get"}, Why: "while OpenYurt's own manager holds one of them and does the same work, the dialect writes nothing; its chart has the latter"},
		},
	}}
}
