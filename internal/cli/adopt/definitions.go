// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/config"
	"everynode.dev/everynode/internal/cli/options"
	kruisedialect "everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialects"
)

// The kinds of the webhook objects that are replaced, removed and restored.
func mutating() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
}

func validating() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
}

// resourceRef is a reference to an object.
type resourceRef struct {
	kind schema.GroupVersionResource
	name string
}

// definitionRef is a reference to a CustomResourceDefinition.
func definitionRef(name string) resourceRef { return resourceRef{kruisedialect.Definitions(), name} }

func (t resourceRef) String() string { return strings.TrimSuffix(t.kind.Resource, "s") + "/" + t.name }

func (t resourceRef) request(verb string) options.Request {
	return options.Request{Verb: verb, Resource: t.kind.GroupResource(), Name: t.name}
}

func (t resourceRef) client(c *options.Clients) dynamic.ResourceInterface {
	return c.Dynamic.Resource(t.kind)
}

// get returns nil if there is no such object.
func (t resourceRef) get(ctx context.Context, c *options.Clients) (*unstructured.Unstructured, error) {
	object, err := t.client(c).Get(ctx, t.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // not found is not an error
	}
	return object, options.Explain(err, t.request("get"))
}

// resources returns the resources whose CRDs are adopted.
func resources() []string {
	return []string{kruise.Resource, kruise.ResourceJob, kruise.ResourceNodeImage}
}

func definition(resource string) resourceRef {
	return definitionRef(resource + "." + kruise.Group)
}

// theirHooks returns the webhooks of OpenKruise, ourHooks those of Everynode.
func theirHooks() []resourceRef {
	return []resourceRef{{mutating(), "kruise-mutating-webhook-configuration"}, {validating(), "kruise-validating-webhook-configuration"}}
}

func ourHooks() []resourceRef {
	return []resourceRef{{mutating(), "everynode-mutating"}, {validating(), "everynode-validating"}}
}

// shipped returns Everynode's CRD of that name.
func shipped(name string) (*unstructured.Unstructured, error) {
	data, err := config.Kruise.ReadFile("kruise/00-crd-" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("reading Everynode's CRDs: %w", err)
	}
	raw, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("reading Everynode's CRD %s: %w", name, err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("reading Everynode's CRD %s: %w", name, err)
	}
	return object, nil
}

// storedVersions returns the versions in which objects may be stored.
func storedVersions(crd *unstructured.Unstructured) []string {
	stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	return stored
}

// versionsOf returns the versions of a CRD.
func versionsOf(crd *unstructured.Unstructured) []string {
	list, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var names []string
	for _, one := range list {
		if version, ok := one.(map[string]any); ok {
			name, _ := version["name"].(string)
			names = append(names, name)
		}
	}
	return names
}

// covers returns an error if a CRD lacks a version in which objects are stored: the API server could not read
// them.
func covers(next, now *unstructured.Unstructured, whose string) error {
	have := versionsOf(next)
	for _, version := range storedVersions(now) {
		if !slices.Contains(have, version) {
			return fmt.Errorf("objects of %s are stored as %s, and %s CRD has only %s: the API server could not read them",
				now.GetName(), version, whose, strings.Join(have, ", "))
		}
	}
	return nil
}

// grace is added to the duration of a lease, because clocks differ. An expired lease is read every watchEvery, for at
// most longestWatch, to see whether it is renewed.
const (
	grace        = 10 * time.Second
	watchEvery   = 2 * time.Second
	longestWatch = 30 * time.Second
)

// manager is a manager that must not be active, by its lease, and how to stop it.
type manager struct{ namespace, name, remedy string }

// refuseIfActive returns an error while a manager holds its lease. If the lease has expired by the local clock, it is
// observed for its duration, because the clock of the manager may differ.
func (v *verb) refuseIfActive(ctx context.Context, c *options.Clients, m manager) error {
	first, err := m.lease(ctx, c)
	if err != nil || !held(first) {
		return err
	}
	lasts := time.Duration(*first.Spec.LeaseDurationSeconds) * time.Second
	if ago := v.Now().Sub(first.Spec.RenewTime.Time); ago < lasts+grace {
		return m.works(first, fmt.Sprintf("it is active, or was %s ago", ago.Round(time.Second)))
	}
	lasts = min(lasts, longestWatch)
	_, _ = fmt.Fprintf(v.ErrOut, "watching the lease %s/%s for %s, to see whether it is renewed\n", m.namespace, m.name, lasts)
	for waited := time.Duration(0); waited < lasts; waited += watchEvery {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-v.After(watchEvery):
		}
		next, err := m.lease(ctx, c)
		if err != nil || !held(next) {
			return err
		}
		if !next.Spec.RenewTime.Equal(first.Spec.RenewTime) || *next.Spec.HolderIdentity != *first.Spec.HolderIdentity {
			return m.works(next, "it is active, although the lease has expired by the clock of this machine")
		}
	}
	return nil
}

// works returns the error for an active manager.
func (m manager) works(lease *coordinationv1.Lease, says string) error {
	return fmt.Errorf("%s holds the lease %s/%s, so %s: %s, and run the command again when the lease has expired", *lease.Spec.HolderIdentity, m.namespace, m.name, says, m.remedy)
}

// lease returns the lease of the manager, or nil.
func (m manager) lease(ctx context.Context, c *options.Clients) (*coordinationv1.Lease, error) {
	lease, err := c.Kubernetes.CoordinationV1().Leases(m.namespace).Get(ctx, m.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // not found is not an error
	}
	resource := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	return lease, options.Explain(err, options.Request{Verb: "get", Resource: resource, Namespace: m.namespace, Name: m.name})
}

// held reports whether a lease has a holder.
func held(lease *coordinationv1.Lease) bool {
	if lease == nil {
		return false
	}
	s := lease.Spec
	return s.HolderIdentity != nil && *s.HolderIdentity != "" && s.RenewTime != nil && s.LeaseDurationSeconds != nil
}

func openKruise() manager {
	other := dialects.PeerOf(dialects.Kruise)
	return manager{other.Namespace, other.Leases[0], "scale it to zero (kubectl -n " + other.Namespace + " scale deployment kruise-controller-manager --replicas=0)"}
}

func ourManager() manager {
	return manager{everynode.Namespace, "everynode-manager", "stop it (kubectl -n " + everynode.Namespace + " scale deployment everynode-manager --replicas=0)"}
}
