// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/credentials"
	"everynode.dev/everynode/internal/imageref"
)

func loginAs(user string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{"r.io":{"username":%q,"password":"p"}}}`, user)},
	}
}

// chainOf returns a key chain that asks get.
func chainOf(get func(name string) (*corev1.Secret, error)) *nodeKeychain {
	return &nodeKeychain{
		namespace: "secrets", seen: map[string]*corev1.Secret{},
		get: func(_ context.Context, _, name string) (*corev1.Secret, error) { return get(name) },
	}
}

func orderWith(refs ...string) pullSpec {
	o := pullSpec{ref: imageref.Full{Name: "r.io/app:v1", Repository: "r.io/app"}}
	for _, ref := range refs {
		namespace, name, _ := strings.Cut(ref, "/")
		o.secrets = append(o.secrets, v1beta1.ReferenceObject{Namespace: namespace, Name: name})
	}
	return o
}

func users(found []credentials.Credential) string {
	all := []string{}
	for _, c := range found {
		all = append(all, c.Username)
	}
	return strings.Join(all, " ")
}

func notFound() error { return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "x") }

func TestSecretsAreTriedInOrderAndFaultsAreReported(t *testing.T) {
	chain := chainOf(func(name string) (*corev1.Secret, error) {
		if name == "gone" {
			return nil, notFound()
		}
		return loginAs(name), nil
	})
	found, err := chain.find(t.Context(), orderWith("secrets/ann", "other/eve", "secrets/gone", "secrets/bob"))
	expect(t, "users", users(found), "ann bob")
	for _, want := range []string{"pull secret other/eve: this agent reads secrets only from the namespace secrets", "pull secret secrets/gone: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestSecretsOutliveAnAPIServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer error
		var back time.Time
		chain := chainOf(func(name string) (*corev1.Secret, error) {
			if !back.IsZero() && !time.Now().Before(back) {
				return loginAs(name), nil
			}
			return loginAs(name), answer
		})
		if found, err := chain.find(t.Context(), orderWith("secrets/ann")); users(found) != "ann" || err != nil {
			t.Fatalf("%v %v", found, err)
		}
		answer = errors.New("connection refused")
		if found, err := chain.find(t.Context(), orderWith("secrets/ann")); users(found) != "ann" || err != nil {
			t.Errorf("a secret that was seen before: %v %v", found, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := chain.find(ctx, orderWith("secrets/bob")); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("a secret that was never seen: %v", err)
		}
		back = time.Now().Add(10 * time.Second)
		if found, err := chain.find(t.Context(), orderWith("secrets/bob")); users(found) != "bob" || err != nil {
			t.Errorf("a secret that comes later: %v %v", found, err)
		}
		back, answer = time.Time{}, notFound()
		if found, err := chain.find(t.Context(), orderWith("secrets/ann")); users(found) != "" || err == nil {
			t.Errorf("a secret that was deleted: %v %v", found, err)
		}
	})
}
