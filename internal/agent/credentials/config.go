// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// config is the CredentialProviderConfig of the kubelet, with the fields that are used here. All versions have the same
// fields.
type config struct {
	metav1.TypeMeta `json:",inline"`
	Providers       []providerConfig `json:"providers"`
}

type providerConfig struct {
	Name                 string           `json:"name"`
	MatchImages          []string         `json:"matchImages"`
	DefaultCacheDuration *metav1.Duration `json:"defaultCacheDuration"`
	APIVersion           string           `json:"apiVersion"`
	Args                 []string         `json:"args,omitempty"`
	Env                  []envVar         `json:"env,omitempty"`
	TokenAttributes      *tokenAttributes `json:"tokenAttributes,omitempty"`
}

type envVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// tokenAttributes request the token of the service account of a pod. There is no pod yet when an image is pulled before
// an update, so a provider that requires a service account is not called; others are called without a token, as by the
// kubelet.
type tokenAttributes struct {
	RequireServiceAccount *bool `json:"requireServiceAccount"`
	// Other fields for tokens are not used.
	ServiceAccountTokenAudience          string   `json:"serviceAccountTokenAudience"`
	CacheType                            string   `json:"cacheType"`
	RequiredServiceAccountAnnotationKeys []string `json:"requiredServiceAccountAnnotationKeys,omitempty"`
	OptionalServiceAccountAnnotationKeys []string `json:"optionalServiceAccountAnnotationKeys,omitempty"`
}

// The API groups of the configuration and of the protocol.
const (
	configGroup   = "kubelet.config.k8s.io/"
	configKind    = "CredentialProviderConfig"
	protocolGroup = "credentialprovider.kubelet.k8s.io/"
)

func versions() []string { return []string{"v1", "v1beta1", "v1alpha1"} }

// readConfig reads a file, or every *.json, *.yaml and *.yml of a directory in the order of their names.
func readConfig(path string) ([]providerConfig, error) {
	files, err := configFiles(path)
	if err != nil {
		return nil, fmt.Errorf("reading the credential provider config: %w", err)
	}
	all := []providerConfig{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the credential provider config: %w", err)
		}
		c := config{}
		if err := yaml.UnmarshalStrict(data, &c); err != nil {
			return nil, fmt.Errorf("reading the credential provider config %s: %w", file, err)
		}
		version, ok := strings.CutPrefix(c.APIVersion, configGroup)
		if !ok || !slices.Contains(versions(), version) || c.Kind != configKind {
			return nil, fmt.Errorf("%s holds %s %s: a credential provider config is %sv1 %s", file, c.APIVersion, c.Kind, configGroup, configKind)
		}
		all = append(all, c.Providers...)
	}
	return all, validate(path, all)
}

func configFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	files := []string{}
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, err
}

func validate(path string, all []providerConfig) error {
	if len(all) == 0 {
		return fmt.Errorf("%s names no credential provider: list at least one under providers, or remove the flag", path)
	}
	seen := map[string]bool{}
	for _, p := range all {
		version, known := strings.CutPrefix(p.APIVersion, protocolGroup)
		fault := ""
		switch {
		case p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/ "):
			fault = "its name must be the name of a file in the plugin directory"
		case seen[p.Name]:
			fault = "it is listed twice"
		case !known || !slices.Contains(versions(), version):
			fault = fmt.Sprintf("its apiVersion is %q: write %sv1", p.APIVersion, protocolGroup)
		case len(p.MatchImages) == 0:
			fault = "it has no matchImages: name the images that it is for"
		case p.DefaultCacheDuration == nil || p.DefaultCacheDuration.Duration < 0:
			fault = "its defaultCacheDuration is missing or negative: write for example 10m, or 0s to cache nothing"
		}
		if fault != "" {
			return fmt.Errorf("credential provider %q in %s: %s", p.Name, path, fault)
		}
		seen[p.Name] = true
	}
	return nil
}

// needsPod reports whether the provider requires a pod.
func (p *providerConfig) needsPod() bool {
	t := p.TokenAttributes
	return t != nil && (t.RequireServiceAccount == nil || *t.RequireServiceAccount)
}

func (p *providerConfig) cacheDuration() time.Duration { return p.DefaultCacheDuration.Duration }
