// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	protocol "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// Plugins calls credential provider plugins. It is safe for concurrent use.
type Plugins struct {
	all []*plugin
}

// Load reads the configuration (a file or a directory, in the format of the kubelet), and finds its programs in dir.
func Load(path, dir string) (*Plugins, error) {
	configs, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	p := &Plugins{}
	for _, c := range configs {
		program, err := exec.LookPath(filepath.Join(dir, c.Name))
		if err != nil {
			return nil, fmt.Errorf("credential provider %s: %w (is it in the plugin directory, and executable?)", c.Name, err)
		}
		p.all = append(p.all, newPlugin(c, program))
	}
	return p, nil
}

// Ask returns a keyring with the credentials of the plugins for a repository. If a plugin fails, the others are still
// called: the result has their credentials and the errors.
func (p *Plugins) Ask(ctx context.Context, repository string) (*Keyring, error) {
	ring := &Keyring{}
	var failed []error
	for _, one := range p.all {
		if one.config.needsPod() || !slices.ContainsFunc(one.config.MatchImages, func(pattern string) bool {
			return Matches(pattern, repository)
		}) {
			continue
		}
		auth, err := one.ask(ctx, repository)
		if err != nil {
			failed = append(failed, fmt.Errorf("credential provider %s: %w", one.config.Name, err))
			continue
		}
		for _, pattern := range slices.Sorted(maps.Keys(auth)) {
			ring.Add(pattern, Credential{Username: auth[pattern].Username, Password: auth[pattern].Password})
		}
	}
	return ring, errors.Join(failed...)
}

// plugin is one program and its cached responses.
type plugin struct {
	config providerConfig
	run    func(ctx context.Context, request []byte) ([]byte, error)
	now    func() time.Time
	// turn is a semaphore for the program and the cache.
	turn  chan struct{}
	cache map[string]answer
}

type answer struct {
	auth    map[string]protocol.AuthConfig
	expires time.Time
}

func newPlugin(c providerConfig, program string) *plugin {
	return &plugin{config: c, run: runner(program, c), now: time.Now, turn: make(chan struct{}, 1), cache: map[string]answer{}}
}

// everything is the cache key of a response for all images; no repository has this name.
const everything = "<all>"

// ask returns the response of the plugin for a repository, by pattern. One call runs at a time, because the next one
// may find its response in the cache.
func (p *plugin) ask(ctx context.Context, repository string) (map[string]protocol.AuthConfig, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	registry, _, _ := strings.Cut(repository, "/")
	maps.DeleteFunc(p.cache, func(_ string, a answer) bool { return !p.now().Before(a.expires) })
	for _, key := range []string{repository, registry, everything} {
		if a, ok := p.cache[key]; ok {
			return a.auth, nil
		}
	}
	response, err := p.call(ctx, repository)
	if err != nil {
		return nil, err
	}
	keys := map[protocol.PluginCacheKeyType]string{
		protocol.ImagePluginCacheKeyType:    repository,
		protocol.RegistryPluginCacheKeyType: registry,
		protocol.GlobalPluginCacheKeyType:   everything,
	}
	key, ok := keys[response.CacheKeyType]
	if !ok {
		return nil, errors.New("the cacheKeyType of its answer is none of Image, Registry and Global")
	}
	keep := p.config.cacheDuration()
	if response.CacheDuration != nil {
		keep = response.CacheDuration.Duration
	}
	p.cache[key] = answer{response.Auth, p.now().Add(keep)}
	return response.Auth, nil
}

// call runs the program once.
func (p *plugin) call(ctx context.Context, repository string) (*protocol.CredentialProviderResponse, error) {
	request, err := json.Marshal(protocol.CredentialProviderRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: p.config.APIVersion, Kind: "CredentialProviderRequest"},
		Image:    repository,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	data, err := p.run(ctx, request)
	if err != nil {
		return nil, err
	}
	response := &protocol.CredentialProviderResponse{}
	if err := json.Unmarshal(data, response); err != nil {
		return nil, errors.New("its answer is not the JSON of a CredentialProviderResponse") // the error may quote a credential
	}
	if response.APIVersion != p.config.APIVersion || response.Kind != "CredentialProviderResponse" {
		return nil, fmt.Errorf("its answer is not a %s CredentialProviderResponse", p.config.APIVersion)
	}
	return response, nil
}
