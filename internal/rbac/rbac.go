// SPDX-License-Identifier: Apache-2.0

// Package rbac declares which requests the manager and the agent of a node send to the API server, and why.
// The reference page is generated from this table; tests compare the shipped roles (config/) and the actual
// requests with it.
//
// Vocabulary: a role is an object of RBAC, a rule what it allows about one resource, and a call one request, as recorded in an audit log.
//
// The rule: a role allows what is called and nothing else. A verb that tests never observe but that must be
// allowed is marked as Unseen, and a verb that is observed only sometimes as Rare. An exception that is not
// needed any more is an error.
package rbac

import "slices"

// Programs that have rights.
const (
	Manager = "everynode-manager"
	Agent   = "everynode-agent"
)

// User is who a program is to the API server.
func User(program string) string {
	return map[string]string{
		Manager: "system:serviceaccount:everynode-system:everynode-manager",
		Agent:   "system:serviceaccount:everynode-agents:everynode-agent",
	}[program]
}

// Role is a role that is shipped.
type Role struct {
	Name string
	// Namespace is where a Role holds; a ClusterRole has none.
	Namespace string
	// Program is whose role it is.
	Program string
	// For is what it is needed for.
	For string
	// BoundBy is who binds a role that the manifests and the chart do not bind.
	BoundBy string
	Rules   []Rule
}

// Rule is what a role allows about one resource.
type Rule struct {
	Group, Resource string
	// Names are the objects that it is about; without any it is about all.
	Names []string
	Verbs []string
	Why   string
	// Unseen are verbs that no program sends, or none under this role, and Rare are verbs that are sent only sometimes; Why has the reason.
	Unseen, Rare []string
}

// Call is one request.
type Call struct {
	Verb, Group, Resource, Namespace, Name string
}

// Allows reports whether a role, where it holds, allows a call.
func (r *Role) Allows(c Call) bool {
	if r.Namespace != "" && r.Namespace != c.Namespace {
		return false
	}
	return slices.ContainsFunc(r.Rules, func(rule Rule) bool { return rule.allows(c) })
}

func (r *Rule) allows(c Call) bool {
	return r.Group == c.Group && r.Resource == c.Resource && slices.Contains(r.Verbs, c.Verb) &&
		(len(r.Names) == 0 || slices.Contains(r.Names, c.Name))
}
