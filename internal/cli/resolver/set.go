// SPDX-License-Identifier: Apache-2.0

// Package resolver finds the DaemonSet that a user names: a DaemonSet of apps/v1, or an Advanced DaemonSet of
// apps.kruise.io.
//
// A set is written as NAME, daemonset/NAME (ds/NAME) or ads/NAME. A bare NAME that exists in both kinds is an error. If
// the cluster has no Advanced DaemonSets, the sets of apps/v1 are still found. If the user may not read one of the
// kinds, a bare NAME is searched in the other kind: reading commands print a note, and changing commands require that
// the kind is written.
package resolver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"everynode.dev/everynode/internal/dialect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialects"
)

// Set is a DaemonSet in a cluster.
type Set struct {
	Source   dialect.Source
	Dialect  dialect.Dialect
	Resource schema.GroupVersionResource
	Kind     string
	Object   *unstructured.Unstructured
	// Unread is set if the set was found by a bare name and the other kind could not be read.
	Unread error
}

// newSet returns a set of the dialect.
func newSet(d dialect.Dialect, object *unstructured.Unstructured) *Set {
	return &Set{Source: d.Source, Dialect: d, Resource: d.Source.Resource, Kind: d.Source.Kind, Object: object}
}

// FromWorkload returns a set that is watched. Its object has no more than what identifies it, and its labels and annotations.
func FromWorkload(key clustercache.Key, w *dialect.Workload) *Set {
	object := &unstructured.Unstructured{}
	for _, d := range dialects.Onlookers() {
		if d.Source.Dialect != key.Dialect {
			continue
		}
		object.SetGroupVersionKind(d.Source.Resource.GroupVersion().WithKind(d.Source.Kind))
		object.SetNamespace(w.Namespace)
		object.SetName(w.Name)
		object.SetUID(w.UID)
		object.SetGeneration(w.Generation)
		object.SetLabels(w.Labels)
		object.SetAnnotations(w.Annotations)
		return newSet(d, object)
	}
	return nil
}

// Namespace returns the namespace of the object.
func (s *Set) Namespace() string { return s.Object.GetNamespace() }

// Name returns the name of the object.
func (s *Set) Name() string { return s.Object.GetName() }

// Advanced reports whether the set is an Advanced DaemonSet.
func (s *Set) Advanced() bool { return s.Source.Dialect == dialects.Kruise }

// Key returns the key of the set in an index.
func (s *Set) Key() clustercache.Key {
	return clustercache.Key{Dialect: s.Source.Dialect, Namespace: s.Namespace(), Name: s.Name()}
}

// String returns the name with the kind: daemonset/NAME or ads/NAME.
func (s *Set) String() string { return prefix(s.Advanced()) + s.Name() }

// Title returns the name with the namespace.
func (s *Set) Title() string { return s.Namespace() + "/" + s.String() }

func prefix(advanced bool) string {
	if advanced {
		return "ads/"
	}
	return "daemonset/"
}

// Find returns the set arg in the namespace of the clients.
func Find(ctx context.Context, c *options.Clients, arg string) (*Set, error) {
	ref, err := parse(arg)
	if err != nil {
		return nil, err
	}
	var found []*Set
	var refused []error
	for _, d := range dialects.Onlookers() {
		if !ref.matches(d) {
			continue
		}
		object, err := get(ctx, c, d, ref.name)
		switch {
		case err != nil && !fromServer(err):
			return nil, err // the other kind would return the same error
		case err != nil:
			refused = append(refused, err)
		case object != nil:
			found = append(found, newSet(d, object))
		}
	}
	switch {
	case len(found) == 1:
		found[0].Unread = errors.Join(refused...)
		return found[0], nil
	case len(found) > 1:
		return nil, options.Usagef("there are two daemon sets %s in namespace %s: write %s for the one of apps/v1, or %s for the one of apps.kruise.io",
			ref.name, c.Namespace, found[0], found[1])
	case len(refused) > 0:
		return nil, errors.Join(refused...)
	default:
		return nil, ref.notFound(c)
	}
}

// FindToRead is Find for reading commands: it prints a note if another set may be meant.
func FindToRead(ctx context.Context, o *options.Options, c *options.Clients, arg string) (*Set, error) {
	set, err := Find(ctx, c, arg)
	if err == nil && set.Unread != nil {
		o.Note("this is %s; it is not known whether %s also exists: %v", set, set.otherKind(), set.Unread)
	}
	return set, err
}

// FindToChange is Find for changing commands: a bare name must be unambiguous.
func FindToChange(ctx context.Context, c *options.Clients, arg string) (*Set, error) {
	set, err := Find(ctx, c, arg)
	if err == nil && set.Unread != nil {
		return nil, options.Usagef("it is not known whether %s exists as well as %s: write %s to change that one: %w",
			set.otherKind(), set, set, set.Unread)
	}
	return set, err
}

// otherKind returns the name of the set of the other kind.
func (s *Set) otherKind() string { return prefix(!s.Advanced()) + s.Name() }

// fromServer reports whether an error comes from the API server.
func fromServer(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}

// get returns nil if the object or its kind does not exist.
func get(ctx context.Context, c *options.Clients, d dialect.Dialect, name string) (*unstructured.Unstructured, error) {
	object, err := c.Dynamic.Resource(d.Source.Resource).Namespace(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return object, nil
	}
	if notPresent(c, d, err) {
		return nil, nil //nolint:nilnil // nothing is there, and that is not a failure
	}
	return nil, options.Explain(err, options.Request{Verb: "get", Resource: d.Source.Resource.GroupResource(), Namespace: c.Namespace, Name: name})
}

// notPresent reports whether err means that the object or its kind does not exist. For a user without the right to read
// a kind, the API server answers "forbidden" even if the kind does not exist.
func notPresent(c *options.Clients, d dialect.Dialect, err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !Served(c, d.Source.Resource)
}

// Served reports whether the cluster has a resource. If that cannot be determined, it returns true.
func Served(c *options.Clients, resource schema.GroupVersionResource) bool {
	list, err := c.Discovery.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == resource.Resource {
			return true
		}
	}
	return false
}

// Kinds returns the dialects whose kinds the cluster has.
func Kinds(c *options.Clients) []dialect.Dialect {
	return slices.DeleteFunc(dialects.Onlookers(), func(d dialect.Dialect) bool {
		return d.Source.Dialect == dialects.Kruise && !Served(c, d.Source.Resource)
	})
}

// List returns all sets of both kinds in the namespace of the clients, or in all namespaces, those of apps/v1 first.
func List(ctx context.Context, c *options.Clients, allNamespaces bool) ([]*Set, error) {
	sets, refused, err := listAll(ctx, c, allNamespaces)
	if err == nil && len(refused) > 0 {
		err = errors.Unwrap(refused[0]) // no kind could be listed
	}
	if err != nil {
		return nil, err
	}
	return sets, nil
}

// Readable is List for commands that work with one kind too: if the user may not list a kind, it prints a note and
// returns the sets of the other kind. If there are none, it returns an error.
func Readable(ctx context.Context, o *options.Options, c *options.Clients, allNamespaces bool) ([]*Set, error) {
	sets, refused, err := listAll(ctx, c, allNamespaces)
	if err == nil && len(sets) == 0 {
		err = errors.Join(refused...)
	}
	if err != nil {
		return nil, err
	}
	for _, err := range refused {
		o.Note("%v", err)
	}
	return sets, nil
}

// listAll returns the sets of both kinds, and the errors for the kinds that cannot be listed.
func listAll(ctx context.Context, c *options.Clients, allNamespaces bool) (sets []*Set, refused []error, err error) {
	namespace := c.Namespace
	if allNamespaces {
		namespace = metav1.NamespaceAll
	}
	for _, d := range Kinds(c) {
		some, err := list(ctx, c, d, namespace)
		switch {
		case apierrors.IsForbidden(err):
			refused = append(refused, fmt.Errorf("%s are left out: %w", d.Source.Resource.GroupResource(), err))
		case err != nil:
			return nil, nil, err
		}
		sets = append(sets, some...)
	}
	return sets, refused, nil
}

// list returns all sets of one kind, or none if the cluster does not have the kind.
func list(ctx context.Context, c *options.Clients, d dialect.Dialect, namespace string) ([]*Set, error) {
	found, err := c.Dynamic.Resource(d.Source.Resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		if notPresent(c, d, err) {
			return nil, nil
		}
		return nil, options.Explain(err, options.Request{Verb: "list", Resource: d.Source.Resource.GroupResource(), Namespace: namespace})
	}
	sets := make([]*Set, len(found.Items))
	for i := range found.Items {
		sets[i] = newSet(d, &found.Items[i])
	}
	return sets, nil
}

// Missing is the error that a set does not exist.
type Missing struct{ text string }

// Error implements error.
func (m *Missing) Error() string { return m.text }

func missingf(format string, args ...any) error { return &Missing{fmt.Sprintf(format, args...)} }

// notFound returns the error for a set that does not exist.
func (r reference) notFound(c *options.Clients) error {
	advanced := dialects.Onlookers()[1].Source.Resource
	served := Served(c, advanced)
	switch {
	case r.kind == advancedKind && !served:
		return missingf("there is no ads/%s: this cluster has no Advanced DaemonSets (%s is not served)", r.name, advanced.GroupVersion())
	case r.kind == anyKind && served:
		return missingf("there is neither daemonset/%s nor ads/%s in namespace %s: name another one with -n", r.name, r.name, c.Namespace)
	case r.kind == advancedKind:
		return missingf("there is no ads/%s in namespace %s: name another one with -n", r.name, c.Namespace)
	default:
		return missingf("there is no daemonset/%s in namespace %s: name another one with -n", r.name, c.Namespace)
	}
}
