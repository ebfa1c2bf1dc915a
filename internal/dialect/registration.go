// SPDX-License-Identifier: Apache-2.0

package dialect

import "everynode.dev/everynode/internal/rbac"

// Registration is everything that the manager, the command line, the manifests and the reference need to know
// of a dialect. It is only data: creating one has no side effects.
type Registration struct {
	Name string
	// Default reports whether the dialect is served unless --dialects says otherwise.
	Default bool
	// Does describes the dialect in the log; Adds describes what it adds to a dialect that it extends.
	Does, Adds string
	New        func(Setting) Dialect
	// Extend returns the dialect combined with an earlier one of the list that has the same objects, so that each object has one decision. It is nil for a
	// dialect that shares no objects.
	Extend func(d Dialect, s Setting) Dialect
	// Facts is nil for a dialect that needs to know nothing more of a pod.
	Facts FactsFunc
	// Peer is the manager of another project that does the same work; without one, the probe shows whether another controller does.
	Peer *Peer
	// Alongside reports whether the dialect expects another controller to be active, so that none is searched for.
	Alongside bool
	// Optional reports whether the other dialects are served although the sets of this one cannot be read: its CRDs are installed separately.
	Optional bool
	// Roles are the roles of the manager for this dialect, in addition to those that every manager has.
	Roles []rbac.Role
}

// Setting is what differs between the users of a dialect.
type Setting struct {
	// Namespace is the one of Everynode.
	Namespace string
	MayWrite  func() bool
	// NoResize reports whether a change of the resources of containers recreates the pod.
	NoResize bool
	// MayHold reports whether sets of a namespace may hold nodes that come back (Workload.ComeBackFirst). It is nil for who does not know.
	MayHold func(namespace string) bool
}

// Peer is a manager of another project that does the work of a dialect where it runs.
type Peer struct {
	// Name is its name in a sentence, Dialect the name of the dialect.
	Name, Dialect string
	// Namespace and Leases name the leases of which its leader holds one: the name that is its own default first, then the name that its chart has.
	Namespace string
	Leases    []string
	// Controller has the names of the one of its controllers that does the work, where that can be switched off alone.
	Controller []string
	// Remedy is how to keep it from the work.
	Remedy string
}
