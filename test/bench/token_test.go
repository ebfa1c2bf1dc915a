// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"everynode.dev/everynode/test/harness"
)

// All rows authenticate as pods do, with the token of a service account: the API server verifies the chain of a certificate with every
// request, and remembers a token. The native controller does so anyway.

const serviceAccountPrefix = "system:serviceaccount:"

// tokenOf is a token for a user that is a service account.
func (b *bench) tokenOf(user string) (string, error) {
	space, name, ok := strings.Cut(strings.TrimPrefix(user, serviceAccountPrefix), ":")
	if !ok || !strings.HasPrefix(user, serviceAccountPrefix) {
		return "", fmt.Errorf("user %s is no service account, and has no token", user)
	}
	const seconds = int64(24 * 60 * 60)
	request := &authenticationv1.TokenRequest{}
	request.Spec.ExpirationSeconds = new(seconds)
	made, err := b.cluster.Client.CoreV1().ServiceAccounts(space).CreateToken(b.ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of %s: %w", user, err)
	}
	return made.Status.Token, nil
}

// authenticate gives the user of the row its token. A manager begins to use it when it is started again (see resume).
func (b *bench) authenticate() error {
	if b.row.controller == harness.Native {
		return nil
	}
	if b.row.floor() {
		if err := b.makeFloorUser(); err != nil {
			return err
		}
	}
	token, err := b.tokenOf(b.row.user)
	if err != nil {
		return err
	}
	b.token = token
	if b.row.floor() {
		return nil
	}
	return useToken(b.cluster.Plane.ManagerKubeconfig(harness.ManagerComponent), token)
}

// makeFloorUser makes a service account with rights of its own, to which the API server gives no preference.
func (b *bench) makeFloorUser() error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: floorAccount, Namespace: namespace}}
	_, err := b.cluster.Client.CoreV1().ServiceAccounts(namespace).Create(b.ctx, account, metav1.CreateOptions{})
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "everynode-bench-floor"}}
	binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: floorAccount}}
	binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
	_, err2 := b.cluster.Client.RbacV1().ClusterRoleBindings().Create(b.ctx, binding, metav1.CreateOptions{})
	if err = errors.Join(err, err2); err != nil {
		return fmt.Errorf("giving the floor its rights: %w", err)
	}
	return nil
}

// withToken is the configuration with that token, and with no other credentials.
func withToken(config *rest.Config, token string) *rest.Config {
	plain := rest.AnonymousClientConfig(config)
	plain.BearerToken = token
	return plain
}

// useToken has a kubeconfig authenticate with a token, and with nothing else.
func useToken(file, token string) error {
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return fmt.Errorf("reading a kubeconfig: %w", err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	// What reads it may do so at any moment.
	next := file + ".next"
	if err := clientcmd.WriteToFile(*config, next); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return os.Rename(next, file)
}

func TestUseToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1", CertificateAuthorityData: []byte("authority")}
	config.AuthInfos["a"] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte("certificate"), ClientKeyData: []byte("key"), Impersonate: "another"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "a"}
	config.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	if err := useToken(file, "secret"); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	if got.BearerToken != "secret" || got.Impersonate.UserName != "" || got.CertData != nil || got.KeyData != nil || string(got.CAData) != "authority" || got.Host != "https://127.0.0.1:1" {
		t.Errorf("the kubeconfig is %+v", got)
	}
	got.CertData, got.KeyData, got.Impersonate.UserName = []byte("certificate"), []byte("key"), "another"
	if plain := withToken(got, "other"); plain.BearerToken != "other" || plain.CertData != nil || plain.KeyData != nil || plain.Impersonate.UserName != "" || string(plain.CAData) != "authority" {
		t.Errorf("the configuration is %+v", plain)
	}
	if err := useToken(file+".none", "secret"); err == nil {
		t.Error("a kubeconfig that is not there was written")
	}
}

// TestUsers: each row is a service account, so that all authenticate alike.
func TestUsers(t *testing.T) {
	for _, w := range rows() {
		if !strings.HasPrefix(w.user, serviceAccountPrefix) {
			t.Errorf("%s is the user %s", w.Name, w.user)
		}
	}
}
