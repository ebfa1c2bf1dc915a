// SPDX-License-Identifier: Apache-2.0

// Package policy is the dialect of DaemonSets of apps/v1 next to the controller that creates their pods, for rollout policies: those with the strategy
// OnDelete to which a RolloutPolicy applies are updated by deleting old pods. Everything else of a DaemonSet is left to that controller, so nothing must
// be switched off in the cluster.
package policy

import (
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/rbac"
)

// Name is the name of the dialect.
const Name = "policy"

// Registration is the dialect.
func Registration() dialect.Registration {
	return dialect.Registration{
		Name: Name, Does: "updates DaemonSets of apps/v1 with the strategy OnDelete as rollout policies say, next to the controller that keeps their pods",
		Adds: "follows rollout policies, as every dialect does", New: newDialect, Extend: extend, Alongside: true, Roles: roles(),
	}
}

func roles() []rbac.Role {
	return []rbac.Role{{
		Name: "everynode-manager-undo", Program: rbac.Manager, For: "undos that change the template, where another controller creates the pods",
		BoundBy: "a RoleBinding in each namespace in which undos may do that; with the chart, manager.undoNamespaces",
		Rules: []rbac.Rule{{
			Group: "apps", Resource: "daemonsets", Verbs: []string{"patch"}, Rare: []string{"patch"},
			Why: "changes the template of a DaemonSet back to the committed revision, if no other field manager owns it; only after a failure",
		}},
	}}
}

// extend changes nothing: every dialect follows policies.
func extend(d dialect.Dialect, _ dialect.Setting) dialect.Dialect { return d }

func newDialect(s dialect.Setting) dialect.Dialect {
	d := base.DaemonSets(Name, s)
	d.Source.Digest, d.StatusPatch = Digest, noStatus
	return d
}

// Digest reads a DaemonSet. It shares the template with obj, which must not be changed afterwards.
func Digest(obj map[string]any) dialect.Workload {
	r := &base.Reader{}
	w := r.DaemonSet(obj)
	w.Problems = r.Problems()
	base.Alongside(&w)
	if w.ByPolicy != nil && openyurt.Asks(w.Annotations) { // with OTA, the owner of each node decides
		w.ByPolicy, w.ForOpenYurt = nil, true
	}
	return w
}

// noStatus writes nothing: the status is the other controller's.
func noStatus(*dialect.Workload, dialect.Report) ([]byte, bool) { return nil, false }
