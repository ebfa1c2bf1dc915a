// SPDX-License-Identifier: Apache-2.0

package dialects

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/dialect/openyurt"
	"everynode.dev/everynode/internal/dialect/policy"
	"everynode.dev/everynode/internal/rbac"
)

// All are the dialects that can be named in --dialects. A new one is a line here.
func All() []dialect.Registration {
	return []dialect.Registration{
		native.Registration(),
		kruise.Registration(),
		openyurt.Registration(),
		policy.Registration(),
	}
}

// The names of dialects that have parts elsewhere: the probe, image pulls and webhooks, a verb that replaces OpenYurt's controller, and the advice where that
// of Kubernetes cannot be switched off.
const (
	Native   = native.Name
	Kruise   = kruise.Name
	OpenYurt = openyurt.Name
	Policy   = policy.Name
)

// Names are the names of all dialects.
func Names() []string { return names(All()) }

// Defaults returns the dialects that are served by default.
func Defaults() []string {
	return names(slices.DeleteFunc(All(), func(r dialect.Registration) bool { return !r.Default }))
}

func names(all []dialect.Registration) []string {
	found := make([]string, len(all))
	for i := range all {
		found[i] = all[i].Name
	}
	return found
}

// Served are the dialects with these names.
func Served(names []string) []dialect.Registration {
	return slices.DeleteFunc(All(), func(r dialect.Registration) bool { return !slices.Contains(names, r.Name) })
}

// PeerOf is the manager of another project that does the work of a dialect.
func PeerOf(name string) dialect.Peer { return *Served([]string{name})[0].Peer }

// Build puts dialects together: never more than one for the same objects.
func Build(served []dialect.Registration, setting func(*dialect.Registration) dialect.Setting) (all []dialect.Dialect) {
	for i := range served {
		r := &served[i]
		s := setting(r)
		at := slices.IndexFunc(all, func(d dialect.Dialect) bool { return r.Extend != nil && d.Source.Resource == resource(r) })
		if at >= 0 {
			all[at] = r.Extend(all[at], s)
		} else {
			all = append(all, r.New(s))
		}
	}
	return all
}

func resource(r *dialect.Registration) schema.GroupVersionResource {
	return r.New(dialect.Setting{}).Source.Resource
}

// Onlookers are the dialects for who writes nothing.
func Onlookers() []dialect.Dialect {
	return Build(All(), func(*dialect.Registration) dialect.Setting {
		return dialect.Setting{MayWrite: func() bool { return false }}
	})
}

// FactsOf reads what the dialects that are served need to know of a pod.
func FactsOf(served []string) dialect.FactsFunc {
	all := slices.DeleteFunc(Served(served), func(r dialect.Registration) bool { return r.Facts == nil })
	return func(p *corev1.Pod) *dialect.PodFacts {
		for i := range all {
			if f := all[i].Facts(p); f != nil {
				return f
			}
		}
		return nil
	}
}

// Servings returns which dialect does what, for the log.
func Servings(served []string) map[string]string {
	all, does := Served(served), map[string]string{}
	for i := range all {
		r := &all[i]
		does[r.Name] = r.Does
		if at := slices.IndexFunc(all[:i], func(e dialect.Registration) bool { return r.Extend != nil && resource(&e) == resource(r) }); at >= 0 {
			other := all[at].Name
			does[other] += ", and " + r.Adds
			does[r.Name] = "is part of the dialect " + other + ": one decision for each DaemonSet"
		}
	}
	return does
}

// Roles are all roles that are shipped.
func Roles() []rbac.Role {
	roles := rbac.OfManager()
	for _, r := range All() {
		roles = append(roles, r.Roles...)
	}
	return append(roles, rbac.OfAgent()...)
}
