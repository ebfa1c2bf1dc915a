// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/http"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/internal/agent/cri/fake"
)

// A person of the cluster needs a token for the audience, and the right to delete pods in that namespace.
func TestTokensOfTheCluster(t *testing.T) {
	n := newAPINode(t)
	n.serve(fake.New())
	pod := newPod(t, newSet(t, "r.io/app:v2"), n.name)
	n.begin()
	path := "/v2/pods/default/" + pod.Name
	n.untilAnswer(http.MethodGet, path, 200, pod.Name)

	account, err := plane.client.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ann-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := func(audience string) string {
		request, err := plane.client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return request.Status.Token
	}
	step := func(what, method, path, token string, want int) {
		t.Helper()
		if code, body := n.ask(method, path, "", token); code != want {
			t.Errorf("%s: %d %s, want %d", what, code, body, want)
		}
	}
	ours := token(v2.AudienceOf(n.name))
	step("no token", http.MethodGet, path, "-", 401)
	step("a token for another audience", http.MethodGet, path, token("somebody-else"), 401)
	step("a token for another node", http.MethodGet, path, token(v2.AudienceOf("elsewhere")), 401)
	step("a token for all nodes", http.MethodGet, path, token(v2.Audience), 401)
	step("a text that is no token", http.MethodGet, path, "hello", 401)
	step("a token without rights", http.MethodGet, path, ours, 403)
	allow(t, account, "get")
	step("a token that may read", http.MethodGet, path, ours, 200)
	step("a token that may not delete", http.MethodPost, path+"/upgrade", ours, 403)
	if podOf(t, pod) == nil {
		t.Fatal("the pod is gone")
	}
	allow(t, account, "delete")
	step("a token that may delete", http.MethodPost, path+"/upgrade", ours, 200)
}

// allow lets an account do something with the pods of its namespace, and waits until that is so.
func allow(t *testing.T, account *corev1.ServiceAccount, verb string) {
	t.Helper()
	rights := plane.client.RbacV1()
	name := account.Name + "-" + verb
	_, err := rights.Roles("default").Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{verb}}},
	}, metav1.CreateOptions{})
	if err == nil {
		_, err = rights.RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: "default"}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	c := withToken("")
	*c = *plane.RESTConfig()
	c.Impersonate.UserName = "system:serviceaccount:default:" + account.Name
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if verb == "get" {
			_, err = client.CoreV1().Pods("default").Get(t.Context(), "nobody", metav1.GetOptions{})
		} else {
			err = client.CoreV1().Pods("default").Delete(t.Context(), "nobody", metav1.DeleteOptions{})
		}
		if apierrors.IsNotFound(err) {
			return
		}
	}
	t.Fatalf("the right to %s does not come: %v", verb, err)
}
