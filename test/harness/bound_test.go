// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"everynode.dev/everynode/internal/rbac"
)

// shipped is what a plane has bound to the agents, and one role that Kubernetes has itself.
func shipped() []runtime.Object {
	agent := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "everynode-agents", Name: "everynode-agent"}}
	return []runtime.Object{
		everywhere("shipped", "everynode-agent", agent...),
		inside("kruise-daemon-config", "everynode-agent", agent...),
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "discovery", Labels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}},
			RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "system:discovery"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
		},
	}
}

func everywhere(name, role string, subjects ...rbacv1.Subject) runtime.Object {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: subjects,
	}
}

func inside(namespace, role string, subjects ...rbacv1.Subject) runtime.Object {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shipped"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: role}, Subjects: subjects,
	}
}

// TestCheckBound: a program has the roles that it is shipped with, and no others that somebody has not named.
func TestCheckBound(t *testing.T) {
	agent := rbac.User(rbac.Agent)
	group := rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:authenticated"}
	for name, c := range map[string]struct {
		objects []runtime.Object
		byHand  []string
		want    string
	}{
		"as shipped":                  {shipped(), nil, ""},
		"one is missing":              {shipped()[1:], nil, "has on this plane the roles\nRole kruise-daemon-config everynode-agent\nand"},
		"bound to its user":           {append(shipped(), everywhere("more", "cluster-admin", rbacv1.Subject{Kind: rbacv1.UserKind, Name: agent})), nil, "ClusterRole cluster-admin"},
		"bound to one of its groups":  {append(shipped(), everywhere("more", "cluster-admin", group)), nil, "ClusterRole cluster-admin"},
		"bound in one namespace":      {append(shipped(), inside("team", "read", group)), nil, "Role team read"},
		"bound by hand":               {append(shipped(), inside("team", "read", group)), []string{RoleName("Role", "team", "read")}, ""},
		"by hand, in another":         {append(shipped(), inside("other", "read", group)), []string{RoleName("Role", "team", "read")}, "Role other read"},
		"named, and not bound":        {shipped(), []string{RoleName("Role", "team", "read")}, "Role team read"},
		"bound to somebody else":      {append(shipped(), everywhere("more", "cluster-admin", rbacv1.Subject{Kind: rbacv1.UserKind, Name: "other"})), nil, ""},
		"an account of the same name": {append(shipped(), everywhere("more", "x", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "team", Name: "everynode-agent"})), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := bindings(t.Context(), fake.NewClientset(c.objects...))
			if err != nil {
				t.Fatal(err)
			}
			err = checkBound(rbac.Agent, all.to(agent, "system:authenticated"), c.byHand)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
