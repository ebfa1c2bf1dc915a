// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// login is one entry of a login configuration.
type login struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// AddSecret adds the credentials of a pull secret of either type. Another type is an error.
func (k *Keyring) AddSecret(secret *corev1.Secret) error {
	logins := map[string]login{}
	var err error
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		file := struct {
			Auths *map[string]login `json:"auths"`
		}{Auths: &logins}
		err = json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &file)
	case corev1.SecretTypeDockercfg:
		err = json.Unmarshal(secret.Data[corev1.DockerConfigKey], &logins)
	default:
		return fmt.Errorf("secret %s is of type %q: a pull secret is of type %s or %s", secret.Name, secret.Type,
			corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg)
	}
	if err != nil {
		// The error of the parser may quote the secret, so it is dropped.
		return fmt.Errorf("secret %s does not contain the JSON of a registry login: create it again, for example with kubectl create secret docker-registry", secret.Name)
	}
	for _, pattern := range slices.Sorted(maps.Keys(logins)) {
		c, err := logins[pattern].credential()
		if err != nil {
			return fmt.Errorf("secret %s, login for %s: %w", secret.Name, pattern, err)
		}
		k.Add(pattern, c)
	}
	return nil
}

// credential returns the credential of a login. Name and password may be in one field, as base64 with a colon between
// them.
func (l login) credential() (Credential, error) {
	c := Credential{Username: l.Username, Password: l.Password, IdentityToken: l.IdentityToken, RegistryToken: l.RegistryToken}
	if l.Auth == "" {
		return c, nil
	}
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(l.Auth), "="))
	name, password, ok := strings.Cut(string(data), ":")
	if err != nil || !ok {
		return c, errors.New("its field auth is not base64 of name:password")
	}
	c.Username, c.Password = name, password
	return c, nil
}
