// SPDX-License-Identifier: Apache-2.0

package notifications

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/config/v1alpha1"
	"everynode.dev/everynode/internal/controller/endpoint"
	"everynode.dev/everynode/internal/policy"
)

// The timeout of a request, and how long the delivery of an event is tried.
const (
	defaultTimeout = 10 * time.Second
	minTimeout     = time.Second
	maxTimeout     = time.Minute
	defaultMaxAge  = time.Hour
	minMaxAge      = time.Minute
	maxMaxAge      = 24 * time.Hour
)

// defaultSource is the attribute source where the file has none.
const defaultSource = "/everynode"

// Targets are the notification targets of a file.
type Targets struct {
	source string
	all    []*target
}

// target is one of them.
type target struct {
	name, url  string
	client     *http.Client
	keyFiles   []string
	types      []policy.NoticeType
	namespaces []string
	maxAge     time.Duration
	queue      *queue
}

// Names are the names of the targets; nil has none.
func (t *Targets) Names() []string {
	if t == nil {
		return nil
	}
	names := make([]string, 0, len(t.all))
	for _, one := range t.all {
		names = append(names, one.name)
	}
	return names
}

// wants reports whether a target gets a notice.
func (t *target) wants(n *policy.Notice) bool {
	return (len(t.types) == 0 || slices.Contains(t.types, n.Type)) && (len(t.namespaces) == 0 || slices.Contains(t.namespaces, n.Set.Namespace))
}

// ReadTargets reads a file with targets.
func ReadTargets(file string) (*Targets, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the targets of notifications: %w", err)
	}
	return parse(data)
}

// Files are the files with certificates that a file with targets names. Keys and tokens are read for each request.
func Files(data []byte) (names []string) {
	config := &v1alpha1.NotificationTargets{}
	if yaml.Unmarshal(data, config) != nil {
		return nil
	}
	for i := range config.Targets {
		if server := config.Targets[i].Webhook; server != nil && server.CAFile != "" {
			names = append(names, server.CAFile)
		}
	}
	return names
}

// ParseTargets reads the content of a file with targets.
func ParseTargets(data []byte) (*Targets, error) { return parse(data) }

func parse(data []byte) (*Targets, error) {
	config := &v1alpha1.NotificationTargets{}
	if err := yaml.UnmarshalStrict(data, config); err != nil {
		return nil, fmt.Errorf("reading the targets of notifications: %w", err)
	}
	if config.APIVersion != v1alpha1.APIVersion || config.Kind != v1alpha1.KindTargets {
		return nil, fmt.Errorf("apiVersion %q and kind %q are not known: write apiVersion: %s and kind: %s", config.APIVersion, config.Kind, v1alpha1.APIVersion, v1alpha1.KindTargets)
	}
	out := &Targets{source: defaultSource}
	if config.Source != "" {
		if u, err := url.Parse(config.Source); err != nil || u.User != nil || strings.ContainsAny(config.Source, " \t") {
			return nil, fmt.Errorf("source: %q is not a URI reference: write for example https://cluster-1.example", config.Source)
		}
		out.source = config.Source
	}
	for i := range config.Targets {
		from := &config.Targets[i]
		t, err := newTarget(from)
		if err != nil {
			return nil, fmt.Errorf("targets[%d].%w", i, err)
		}
		if slices.Contains(out.Names(), t.name) {
			return nil, fmt.Errorf("targets[%d].name: there is another target with the name %s", i, t.name)
		}
		out.all = append(out.all, t)
	}
	return out, nil
}

func newTarget(from *v1alpha1.NotificationTarget) (*target, error) {
	t := &target{name: from.Name, keyFiles: from.SigningKeyFiles, namespaces: from.Namespaces, queue: newQueue()}
	if len(validation.IsDNS1123Label(from.Name)) > 0 {
		return nil, fmt.Errorf("name: %q is not one: use lower-case letters, digits and '-'", from.Name)
	}
	timeout, err := within("timeout", from.Timeout, limits{defaultTimeout, minTimeout, maxTimeout})
	if err != nil {
		return nil, err
	}
	if t.maxAge, err = within("maxAge", from.MaxAge, limits{defaultMaxAge, minMaxAge, maxMaxAge}); err != nil {
		return nil, err
	}
	if err := t.filter(from.Events); err != nil {
		return nil, err
	}
	if len(t.keyFiles) < 1 || len(t.keyFiles) > 2 {
		return nil, errors.New("signingKeyFiles: name one file with a key, or two while the key is being replaced")
	}
	if _, err := readKeys(t.keyFiles); err != nil {
		return nil, err
	}
	if from.Webhook == nil {
		return nil, errors.New("webhook: it must be set")
	}
	t.url = from.Webhook.URL
	if t.client, err = endpoint.NewClient(from.Webhook, timeout); err != nil {
		return nil, fmt.Errorf("webhook.%w", err)
	}
	return t, nil
}

// limits are the default, the least and the greatest of a duration.
type limits struct{ standard, least, most time.Duration }

func within(field string, given *metav1.Duration, l limits) (time.Duration, error) {
	if given == nil {
		return l.standard, nil
	}
	if d := given.Duration; d < l.least || d > l.most {
		return 0, fmt.Errorf("%s: %s is not between %s and %s", field, d, l.least, l.most)
	}
	return given.Duration, nil
}

// filter takes the types and namespaces of events that the target gets.
func (t *target) filter(events []string) error {
	for i, name := range events {
		if !slices.Contains(policy.NoticeTypes(), policy.NoticeType(name)) {
			return fmt.Errorf("events[%d]: %q is not known: known are %q", i, name, policy.NoticeTypes())
		}
		t.types = append(t.types, policy.NoticeType(name))
	}
	for i, name := range t.namespaces {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return fmt.Errorf("namespaces[%d]: %q is not the name of a namespace", i, name)
		}
	}
	return nil
}
