// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, repository string
		want                bool
	}{
		{"registry.example.com", "registry.example.com/team/app", true},
		{"registry.example.com/team", "registry.example.com/team/app", true},
		{"registry.example.com/other", "registry.example.com/team/app", false},
		{"registry.example.com", "registry.example.org/team/app", false},
		{"registry.example.com", "registry.example.com:5000/app", false},
		{"registry.example.com:5000", "registry.example.com:5000/app", true},
		{"registry.example.com:5000", "registry.example.com/app", false},
		{"*.example.com", "registry.example.com/app", true},
		{"*.example.com", "a.b.example.com/app", false},
		{"*.*.example.com", "a.b.example.com/app", true},
		{"reg*.example.com", "registry.example.com/app", true},
		{"example.com", "registry.example.com/app", false},
		{"[.example.com", "registry.example.com/app", false},
		{"127.0.0.1:5000", "127.0.0.1:5000/app", true},
	} {
		if got := Matches(c.pattern, c.repository); got != c.want {
			t.Errorf("%s matches %s: %v, not %v", c.pattern, c.repository, got, c.want)
		}
	}
}

func names(found []Credential) string {
	all := []string{}
	for _, c := range found {
		all = append(all, c.Username)
	}
	return strings.Join(all, " ")
}

func TestLookupTriesTheMostSpecificFirst(t *testing.T) {
	ring := &Keyring{}
	for _, pattern := range []string{
		"*.example.com", "https://registry.example.com/v2/team/", "registry.example.com", "http://other.example.com/v1/",
		"registry.example.com/team/app", "https://index.docker.io/v1/",
	} {
		ring.Add(pattern, Credential{Username: pattern})
	}
	for repository, want := range map[string]string{
		"registry.example.com/team/app": "registry.example.com/team/app https://registry.example.com/v2/team/ registry.example.com *.example.com",
		"registry.example.com/free":     "registry.example.com *.example.com",
		"other.example.com/app":         "http://other.example.com/v1/ *.example.com",
		"docker.io/library/nginx":       "https://index.docker.io/v1/",
		"quay.io/app":                   "",
	} {
		if got := names(ring.Lookup(repository)); got != want {
			t.Errorf("for %s: %q, not %q", repository, got, want)
		}
	}
}

func TestLookupKeepsTheOrderOfSecretsAndTellsNothingTwice(t *testing.T) {
	ring := &Keyring{}
	for _, name := range []string{"new", "old", "new"} {
		ring.Add("r.io", Credential{Username: name})
	}
	if got := names(ring.Lookup("r.io/app")); got != "new old" {
		t.Errorf("got %q", got)
	}
}

func pullSecret(kind corev1.SecretType, key, json string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "regcred"}, Type: kind, Data: map[string][]byte{key: []byte(json)}}
}

func TestAddSecret(t *testing.T) {
	padded := base64.StdEncoding.EncodeToString([]byte("ann:se:cret"))
	raw := base64.RawStdEncoding.EncodeToString([]byte("ann:se:cret"))
	for _, secret := range []*corev1.Secret{
		pullSecret(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, fmt.Sprintf(`{"auths":{"r.io":{"auth":%q}}}`, padded)),
		pullSecret(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, fmt.Sprintf(`{"auths":{"r.io":{"auth":%q}}}`, raw)),
		pullSecret(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths":{"r.io":{"username":"ann","password":"se:cret"}}}`),
		pullSecret(corev1.SecretTypeDockercfg, corev1.DockerConfigKey, `{"r.io":{"username":"ann","password":"se:cret"}}`),
	} {
		ring := &Keyring{}
		if err := ring.AddSecret(secret); err != nil {
			t.Error(err)
			continue
		}
		if got := ring.Lookup("r.io/app"); !slices.Equal(got, []Credential{{Username: "ann", Password: "se:cret"}}) {
			t.Errorf("%s: %v", secret.Data, got)
		}
	}
}

func TestAddSecretSaysWhatIsWrongAndNothingSecret(t *testing.T) {
	for want, secret := range map[string]*corev1.Secret{
		"is of type":      pullSecret(corev1.SecretTypeOpaque, "password", "hunter2"),
		"create it again": pullSecret(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths":"hunter2"`),
		"name:password":   pullSecret(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths":{"r.io":{"auth":"hunter2!"}}}`),
		"kubectl create":  {ObjectMeta: metav1.ObjectMeta{Name: "regcred"}, Type: corev1.SecretTypeDockerConfigJson},
	} {
		err := (&Keyring{}).AddSecret(secret)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "regcred") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}
