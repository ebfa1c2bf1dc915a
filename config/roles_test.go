// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/rbac"
)

// right is one thing that a role allows.
type right struct{ role, group, resource, name, verb string }

func (r right) String() string {
	return strings.Join([]string{r.role, r.verb, strings.Trim(r.resource+"."+r.group, "."), r.name}, " ")
}

// roleName tells roles of one name apart.
func roleName(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// rightsOf are all combinations of a rule.
func rightsOf(role string, groups, resources, names, verbs []string) map[right]bool {
	all := map[right]bool{}
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range groups {
		for _, resource := range resources {
			for _, name := range names {
				for _, verb := range verbs {
					all[right{role, group, resource, name, verb}] = true
				}
			}
		}
	}
	return all
}

// shippedRights are those in the manifests, and who is bound to which role.
func shippedRights(t *testing.T) (may map[right]bool, bound map[string][]string) {
	t.Helper()
	may, bound = map[right]bool{}, map[string][]string{}
	for _, d := range documents(t) {
		switch d.Kind {
		case "ClusterRole", "Role":
			for _, rule := range d.Rules {
				if len(rule.NonResourceURLs) > 0 {
					t.Errorf("%s is about %q, which the table does not know", d.Name, rule.NonResourceURLs)
				}
				maps.Copy(may, rightsOf(roleName(d.Kind, d.Namespace, d.Name), rule.APIGroups, rule.Resources, rule.ResourceNames, rule.Verbs))
			}
		default:
			for _, s := range d.Subjects {
				role := roleName(d.RoleRef.Kind, d.Namespace, d.RoleRef.Name)
				bound[role] = append(bound[role], "system:serviceaccount:"+s.Namespace+":"+s.Name)
				if s.Kind != rbacv1.ServiceAccountKind {
					t.Errorf("%s binds the %s %s", d.Name, s.Kind, s.Name)
				}
			}
		}
	}
	return may, bound
}

func kindOf(r *rbac.Role) string {
	if r.Namespace != "" {
		return "Role"
	}
	return "ClusterRole"
}

// TestRolesAreTheTable: the manifests allow what is declared, no more and no less, to whom it is declared for.
func TestRolesAreTheTable(t *testing.T) {
	may, bound := shippedRights(t)
	want, roles := map[right]bool{}, map[string]bool{}
	for _, role := range dialects.Roles() {
		name := roleName(kindOf(&role), role.Namespace, role.Name)
		roles[name] = true
		for _, rule := range role.Rules {
			maps.Copy(want, rightsOf(name, []string{rule.Group}, []string{rule.Resource}, rule.Names, rule.Verbs))
		}
		to := []string{rbac.User(role.Program)}
		if role.BoundBy != "" {
			to = nil
		}
		if !slices.Equal(bound[name], to) {
			t.Errorf("%s is bound to %q, want %q", name, bound[name], to)
		}
	}
	for r := range may {
		if !want[r] {
			t.Errorf("the manifests allow a right that no table declares: %s: declare it in internal/rbac, or remove it", r)
		}
		if strings.Contains(r.group+r.resource+r.verb, "*") {
			t.Errorf("the manifests allow anything: %s", r)
		}
	}
	for r := range want {
		if !may[r] {
			t.Errorf("the manifests do not allow what is declared: %s", r)
		}
	}
	for name := range bound {
		if !roles[name] {
			t.Errorf("%s is bound, and nobody has declared it", name)
		}
	}
}

// TestNoSecretsOfTheWholeCluster: no role that is bound in the whole cluster reads or writes a secret.
func TestNoSecretsOfTheWholeCluster(t *testing.T) {
	may, bound := shippedRights(t)
	found := 0
	for r := range may {
		if r.resource != "secrets" {
			continue
		}
		found++
		if strings.HasPrefix(r.role, "ClusterRole ") && len(bound[r.role]) > 0 {
			t.Errorf("in the whole cluster: %s", r)
		}
	}
	if found == 0 {
		t.Error("no role is about secrets, so this test sees nothing")
	}
}

// TestTheTableExplains everything that it declares.
func TestTheTableExplains(t *testing.T) {
	for _, role := range dialects.Roles() {
		if role.For == "" || rbac.User(role.Program) == "" {
			t.Errorf("%+v", role)
		}
		for _, rule := range role.Rules {
			if rule.Why == "" || len(rule.Verbs) == 0 {
				t.Errorf("%s: %+v", role.Name, rule)
			}
			for _, verb := range slices.Concat(rule.Unseen, rule.Rare) {
				if !slices.Contains(rule.Verbs, verb) {
					t.Errorf("%s: %s of %s is not seen, and not allowed either", role.Name, verb, rule.Resource)
				}
			}
		}
	}
}
