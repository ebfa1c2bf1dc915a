// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"cmp"
	"embed"
	"io/fs"
	"slices"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
)

// flows are the flow schemas that are shipped, in the order in which they are asked, and the priority levels.
func flows(t *testing.T) (schemas []flowcontrolv1.FlowSchema, levels map[string]flowcontrolv1.PriorityLevelConfiguration) {
	t.Helper()
	levels = map[string]flowcontrolv1.PriorityLevelConfiguration{}
	for name, from := range map[string]embed.FS{"install/20-flow-control.yaml": config.Install, "agent/15-flow-control.yaml": config.Agent} {
		data, err := fs.ReadFile(from, name)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			schema, level := flowcontrolv1.FlowSchema{}, flowcontrolv1.PriorityLevelConfiguration{}
			switch {
			case yaml.UnmarshalStrict([]byte(document), &schema) == nil && schema.Kind == "FlowSchema":
				schemas = append(schemas, schema)
			case yaml.UnmarshalStrict([]byte(document), &level) == nil && level.Kind == "PriorityLevelConfiguration":
				levels[level.Name] = level
			default:
				t.Fatalf("%s holds what is neither a flow schema nor a priority level:\n%s", name, document)
			}
		}
	}
	slices.SortFunc(schemas, func(a, b flowcontrolv1.FlowSchema) int {
		return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), cmp.Compare(a.Name, b.Name))
	})
	return schemas, levels
}

// request is one that an API server gets.
type request struct{ namespace, account, verb, group, resource, in string }

// holds is whether a list of a rule names something.
func holds(list []string, what string) bool {
	return slices.Contains(list, what) || slices.Contains(list, "*")
}

func (r request) matches(s *flowcontrolv1.FlowSchema) bool {
	return slices.ContainsFunc(s.Spec.Rules, func(rules flowcontrolv1.PolicyRulesWithSubjects) bool {
		return slices.ContainsFunc(rules.Subjects, func(subject flowcontrolv1.Subject) bool {
			a := subject.ServiceAccount
			return subject.Kind == flowcontrolv1.SubjectKindServiceAccount && a != nil && a.Namespace == r.namespace && a.Name == r.account
		}) && slices.ContainsFunc(rules.ResourceRules, func(rule flowcontrolv1.ResourcePolicyRule) bool {
			where := rule.ClusterScope
			if r.in != "" {
				where = holds(rule.Namespaces, r.in)
			}
			return where && holds(rule.Verbs, r.verb) && holds(rule.APIGroups, r.group) && holds(rule.Resources, r.resource)
		})
	})
}

// TestRequestsFindTheirLevel: each of the manager and the agents has one, the lease of the leader that of all leases, and nobody else is
// touched.
func TestRequestsFindTheirLevel(t *testing.T) {
	schemas, levels := flows(t)
	for _, c := range []struct {
		request
		want string
	}{
		{request{"everynode-system", "everynode-manager", "create", "", "pods", "monitoring"}, "everynode-manager"},
		{request{"everynode-system", "everynode-manager", "watch", "", "nodes", ""}, "everynode-manager"},
		{request{"everynode-system", "everynode-manager", "patch", "apps.kruise.io", "daemonsets/status", "monitoring"}, "everynode-manager"},
		{request{"everynode-system", "everynode-manager", "update", "coordination.k8s.io", "leases", "everynode-system"}, "leader-election"},
		{request{"everynode-system", "everynode-manager", "get", "coordination.k8s.io", "leases", "kube-system"}, "everynode-manager"},
		{request{"everynode-agents", "everynode-agent", "patch", "apps.kruise.io", "nodeimages/status", ""}, "everynode-agents"},
		{request{"everynode-agents", "everynode-manager", "create", "", "pods", "monitoring"}, ""},
		{request{"everynode-system", "default", "list", "", "pods", ""}, ""},
	} {
		got := ""
		if i := slices.IndexFunc(schemas, func(s flowcontrolv1.FlowSchema) bool { return c.matches(&s) }); i >= 0 {
			got = schemas[i].Spec.PriorityLevelConfiguration.Name
		}
		if got != c.want {
			t.Errorf("%+v goes to the level %q, want %q", c.request, got, c.want)
		}
	}
	for _, s := range schemas {
		level := s.Spec.PriorityLevelConfiguration.Name
		if _, shipped := levels[level]; !shipped && level != "leader-election" {
			t.Errorf("%s leads to the level %s, which is nowhere", s.Name, level)
		}
		// 9000 is what catches all service accounts; below 100 is for what keeps a cluster alive.
		if p := s.Spec.MatchingPrecedence; p <= 100 || p >= 9000 {
			t.Errorf("%s has the precedence %d", s.Name, p)
		}
	}
}

// TestLevelsLeaveRoomForOthers: what is shipped is less than what all service accounts have, and is lent while nobody needs it.
func TestLevelsLeaveRoomForOthers(t *testing.T) {
	_, levels := flows(t)
	shares := int32(0)
	for name, l := range levels {
		limited := l.Spec.Limited
		if l.Spec.Type != flowcontrolv1.PriorityLevelEnablementLimited || limited == nil || limited.NominalConcurrencyShares == nil ||
			limited.LendablePercent == nil || *limited.LendablePercent == 0 || limited.BorrowingLimitPercent == nil ||
			limited.LimitResponse.Type != flowcontrolv1.LimitResponseTypeQueue {
			t.Fatalf("%s: %+v", name, l.Spec)
		}
		shares += *limited.NominalConcurrencyShares
	}
	if shares > 50 {
		t.Errorf("%d shares; all service accounts together have 100", shares)
	}
}

// TestFlowsAreOfTheAccountsWithRights: a schema for an account that nobody uses would do nothing, in silence.
func TestFlowsAreOfTheAccountsWithRights(t *testing.T) {
	schemas, _ := flows(t)
	var accounts []string
	for _, d := range documents(t) {
		for _, subject := range d.Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind {
				accounts = append(accounts, subject.Namespace+"/"+subject.Name)
			}
		}
	}
	for _, s := range schemas {
		for _, rules := range s.Spec.Rules {
			for _, subject := range rules.Subjects {
				a := subject.ServiceAccount
				if a == nil || !slices.Contains(accounts, a.Namespace+"/"+a.Name) {
					t.Errorf("%s is for %+v, which has no rights; those that have are %q", s.Name, subject, accounts)
				}
			}
		}
	}
}
