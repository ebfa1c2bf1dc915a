// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/rbac"
	"everynode.dev/everynode/localplane"
)

// RoleName identifies a role binding; namespace is the namespace of the binding, empty for all namespaces.
func RoleName(kind, namespace, name string) string {
	return strings.Join(slices.DeleteFunc([]string{kind, namespace, name}, func(s string) bool { return s == "" }), " ")
}

// CheckBindings returns an error unless the managers of a plane, and its agents, have exactly the roles of Everynode's
// manifests, in addition to the default roles of Kubernetes and the roles that tests bind (RoleName). So all tests on
// this plane used these rights.
func CheckBindings(ctx context.Context, plane *localplane.Plane, byHand ...string) error {
	client, err := kubernetes.NewForConfig(plane.RESTConfig())
	if err != nil {
		return fmt.Errorf("making a client of the plane: %w", err)
	}
	manager, err := whoIsManager(ctx, plane)
	if err != nil {
		return err
	}
	if manager.Username != rbac.User(rbac.Manager) || slices.Contains(manager.Groups, "system:masters") {
		return fmt.Errorf("the manager is %q, of the groups %q", manager.Username, manager.Groups)
	}
	bound, err := bindings(ctx, client)
	if err != nil {
		return err
	}
	agent := rbac.User(rbac.Agent) // it has a token of its service account
	namespace, _, _ := strings.Cut(strings.TrimPrefix(agent, "system:serviceaccount:"), ":")
	err = checkBound(rbac.Agent, bound.to(agent, "system:serviceaccounts", "system:serviceaccounts:"+namespace, "system:authenticated"), nil)
	if err != nil {
		return err
	}
	return checkBound(rbac.Manager, bound.to(manager.Username, manager.Groups...), byHand)
}

// whoIsManager returns the user of the first manager of the plane.
func whoIsManager(ctx context.Context, plane *localplane.Plane) (*authenticationv1.UserInfo, error) {
	config, err := clientcmd.BuildConfigFromFlags("", plane.ManagerKubeconfig(ManagerComponent))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the manager: %w", err)
	}
	config.UserAgent = UserAgent
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the manager: %w", err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking who the manager is: %w", err)
	}
	return &review.Status.UserInfo, nil
}

// bound are the role bindings, without those of Kubernetes.
type bound []binding

type binding struct {
	role     string
	subjects []rbacv1.Subject
}

func bindings(ctx context.Context, client kubernetes.Interface) (bound, error) {
	var all bound
	add := func(o *metav1.ObjectMeta, subjects []rbacv1.Subject, role rbacv1.RoleRef) {
		if o.Labels["kubernetes.io/bootstrapping"] == "" {
			all = append(all, binding{RoleName(role.Kind, o.Namespace, role.Name), subjects})
		}
	}
	everywhere, err := client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing who is bound to which role: %w", err)
	}
	for i := range everywhere.Items {
		b := &everywhere.Items[i]
		add(&b.ObjectMeta, b.Subjects, b.RoleRef)
	}
	inside, err := client.RbacV1().RoleBindings("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing who is bound to which role: %w", err)
	}
	for i := range inside.Items {
		b := &inside.Items[i]
		add(&b.ObjectMeta, b.Subjects, b.RoleRef)
	}
	return all, nil
}

// to returns the roles that are bound to a user, or to one of its groups.
func (b bound) to(user string, groups ...string) []string {
	is := func(s rbacv1.Subject) bool {
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			return "system:serviceaccount:"+s.Namespace+":"+s.Name == user
		case rbacv1.GroupKind:
			return slices.Contains(groups, s.Name)
		default:
			return s.Name == user
		}
	}
	var roles []string
	for _, one := range b {
		if slices.ContainsFunc(one.subjects, is) {
			roles = append(roles, one.role)
		}
	}
	return roles
}

// checkBound compares the roles of a program with those of its manifests.
func checkBound(program string, found, byHand []string) error {
	want := slices.Clone(byHand)
	for _, role := range dialects.Roles() {
		kind := "ClusterRole"
		if role.Namespace != "" {
			kind = "Role"
		}
		if role.Program == program && role.BoundBy == "" {
			want = append(want, RoleName(kind, role.Namespace, role.Name))
		}
	}
	slices.Sort(found)
	if slices.Sort(want); !slices.Equal(found, want) {
		return fmt.Errorf("%s has on this plane the roles\n%s\nand its manifests bind (roles that a test binds must be listed in BoundByHand)\n%s",
			program, strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
	return nil
}
