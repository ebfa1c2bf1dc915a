// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/config/v1alpha1"
	everynode "everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/controller/endpoint"
	"everynode.dev/everynode/internal/policy"
)

// The timeout of a provider.
const (
	defaultTimeout = 10 * time.Second
	minTimeout     = time.Second
	maxTimeout     = policy.MaxTimeout
)

// concurrency is how many requests to one provider are under way at once, and ofNamespace how many of them are of one namespace.
const concurrency, ofNamespace = endpoint.Concurrency, 2

// Providers are those that policies may name.
type Providers map[string]*provider

// provider is one of them.
type provider struct {
	source
	namespaces []string
	timeout    time.Duration
	// alerting reports whether it has alerts.
	alerting bool
	// slots limits the requests that are under way.
	slots chan struct{}
	mu    sync.Mutex
	turns map[string]*turn
}

// turn limits the requests of a namespace.
type turn struct {
	slots chan struct{}
	// users are those that have a place, or wait for one.
	users int
}

// begin waits until a request of a namespace may begin. Requests of one namespace first wait for each other,
// and only then for a place, so a namespace occupies few places.
func (p *provider) begin(ctx context.Context, namespace string) (end func(), err error) {
	p.mu.Lock()
	t := p.turns[namespace]
	if t == nil {
		t = &turn{slots: make(chan struct{}, ofNamespace)}
		p.turns[namespace] = t
	}
	t.users++
	p.mu.Unlock()
	leave := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(p.turns, namespace)
		}
	}
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
	select {
	case p.slots <- struct{}{}:
		return func() { <-p.slots; <-t.slots; leave() }, nil
	case <-ctx.Done():
		<-t.slots
		leave()
		return nil, ctx.Err()
	}
}

// ReadProviders reads a file with providers.
func ReadProviders(file string) (Providers, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the providers of analyses: %w", err)
	}
	return ParseProviders(data)
}

// Files are the files with certificates that a file with providers names.
func Files(data []byte) (names []string) {
	config := &v1alpha1.AnalysisProviders{}
	if yaml.Unmarshal(data, config) != nil {
		return nil
	}
	for i := range config.Providers {
		for _, server := range []*v1alpha1.ProviderEndpoint{config.Providers[i].Prometheus, config.Providers[i].Webhook} {
			if server != nil && server.CAFile != "" {
				names = append(names, server.CAFile)
			}
		}
	}
	return names
}

// ParseProviders reads the content of a file with providers.
func ParseProviders(data []byte) (Providers, error) {
	config := &v1alpha1.AnalysisProviders{}
	if err := yaml.UnmarshalStrict(data, config); err != nil {
		return nil, fmt.Errorf("reading the providers of analyses: %w", err)
	}
	if config.APIVersion != v1alpha1.APIVersion || config.Kind != v1alpha1.KindProviders {
		return nil, fmt.Errorf("apiVersion %q and kind %q are not known: write apiVersion: %s and kind: %s", config.APIVersion, config.Kind, v1alpha1.APIVersion, v1alpha1.KindProviders)
	}
	all := Providers{}
	for i := range config.Providers {
		from := &config.Providers[i]
		p, err := newProvider(from)
		switch {
		case err != nil:
			return nil, fmt.Errorf("providers[%d]: %w", i, err)
		case all[from.Name] != nil:
			return nil, fmt.Errorf("providers[%d].name: there is another provider with the name %s", i, from.Name)
		}
		all[from.Name] = p
	}
	return all, nil
}

func newProvider(from *v1alpha1.AnalysisProvider) (*provider, error) {
	p := &provider{timeout: defaultTimeout, namespaces: from.Namespaces, alerting: from.Prometheus != nil, slots: make(chan struct{}, concurrency), turns: map[string]*turn{}}
	if len(validation.IsDNS1123Label(from.Name)) > 0 {
		return nil, fmt.Errorf("name: %q is not one: use lower-case letters, digits and '-'", from.Name)
	}
	if from.Timeout != nil {
		p.timeout = from.Timeout.Duration
	}
	if p.timeout < minTimeout || p.timeout > maxTimeout {
		return nil, fmt.Errorf("timeout: %s is not between %s and %s", p.timeout, minTimeout, maxTimeout)
	}
	kind, server := "prometheus", from.Prometheus
	if server == nil {
		kind, server = "webhook", from.Webhook
	}
	if server == nil || from.Prometheus != nil && from.Webhook != nil {
		return nil, errors.New("exactly one of prometheus and webhook must be set")
	}
	client, err := endpoint.NewClient(server, p.timeout)
	if err == nil && p.alerting {
		p.source, err = newPrometheus(server.URL, client)
	} else if err == nil {
		p.source = &fromWebhook{server.URL, client}
	}
	if err != nil {
		return nil, fmt.Errorf("%s.%w", kind, err)
	}
	return p, nil
}

// find returns a provider that policies of a namespace may name.
func (all Providers) find(name, namespace string) (*provider, error) {
	p := all[name]
	switch {
	case p == nil:
		return nil, fmt.Errorf("the manager has no provider with the name %q: an administrator adds it to --analysis-providers", name)
	case len(p.namespaces) > 0 && !slices.Contains(p.namespaces, namespace):
		return nil, fmt.Errorf("policies of the namespace %s may not use the provider %q", namespace, name)
	default:
		return p, nil
	}
}

// Check returns why the analyses of a policy cannot be measured, with the path of each field.
func (all Providers) Check(p *everynode.RolloutPolicy) (problems []string) {
	problem := func(path string, err error) {
		if err != nil {
			problems = append(problems, path+": "+err.Error())
		}
	}
	for i := range p.Spec.Analyses {
		a, path := &p.Spec.Analyses[i], fmt.Sprintf("spec.analyses[%d]", i)
		_, err := compile(a.Success)
		problem(path+".success", err)
		problem(path+".query", checkQuery(a.Query))
		found, err := all.find(a.Provider, p.Namespace)
		problem(path+".provider", err)
		if found != nil && found.alerting && strings.TrimSpace(a.Query) == "" {
			problem(path+".query", fmt.Errorf("it is empty, and the provider %q is a Prometheus", a.Provider))
		}
	}
	if b := p.Spec.BlockOnAlerts; b != nil {
		found, err := all.find(b.Provider, p.Namespace)
		if found != nil && !found.alerting {
			err = fmt.Errorf("the provider %q is a webhook, and only a Prometheus has alerts", b.Provider)
		}
		problem("spec.blockOnAlerts.provider", err)
	}
	return problems
}
