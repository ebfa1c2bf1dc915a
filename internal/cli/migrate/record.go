// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/cli/options"
)

// recordPrefix is the prefix of the name of a record, followed by the name of the set.
const recordPrefix = "everynode-migration-"

// Keys of a record.
const (
	keyOld    = "old.yaml" // the object that is deleted, for users
	keyOldUID = "oldUID"   // the UID of that object
	keyNew    = "new.yaml" // the object to create, in its final form
)

// record has everything that is needed to continue.
type record struct {
	name     string // the name of the ConfigMap
	oldUID   types.UID
	old, new *unstructured.Unstructured
}

// to returns the kind of the new object.
func (r *record) to() schema.GroupVersionResource {
	if r.new.GroupVersionKind().Group == kruise.Group {
		return advanced()
	}
	return native()
}

func configMaps() schema.GroupResource { return corev1.Resource("configmaps") }

// readRecord returns nil if there is no record.
func readRecord(ctx context.Context, c *options.Clients, set string) (*record, error) {
	name := recordPrefix + set
	held, err := c.Kubernetes.CoreV1().ConfigMaps(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // not found is not an error
	}
	if err != nil {
		return nil, options.Explain(err, options.Request{Verb: "get", Resource: configMaps(), Namespace: c.Namespace, Name: name})
	}
	r := &record{name: name, oldUID: types.UID(held.Data[keyOldUID]), old: &unstructured.Unstructured{}, new: &unstructured.Unstructured{}}
	for key, object := range map[string]*unstructured.Unstructured{keyOld: r.old, keyNew: r.new} {
		err := decode(held.Data[key], object)
		if _, found, wrong := unstructured.NestedMap(object.Object, "spec", "updateStrategy"); err == nil && key == keyNew && (!found || wrong != nil) {
			err = errors.New("it has no spec.updateStrategy")
		}
		if err != nil {
			return nil, fmt.Errorf("the ConfigMap %s/%s, which an interrupted migration has left, has no object in %s: %w", c.Namespace, name, key, err)
		}
	}
	return r, nil
}

// decode decodes an object with integers, as the API server does.
func decode(text string, object *unstructured.Unstructured) error {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	return object.UnmarshalJSON(data)
}

// write stores the record in the cluster.
func (r *record) write(ctx context.Context, c *options.Clients, dryRun []string) error {
	old := r.old.DeepCopy()
	old.SetManagedFields(nil)
	delete(old.Object, "status")
	before, err := yaml.Marshal(old.Object)
	if err != nil {
		return fmt.Errorf("writing the old object down: %w", err)
	}
	after, err := yaml.Marshal(r.new.Object)
	if err != nil {
		return fmt.Errorf("writing the new object down: %w", err)
	}
	_, err = c.Kubernetes.CoreV1().ConfigMaps(r.old.GetNamespace()).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.old.GetNamespace(), Name: r.name, Labels: map[string]string{everynode.PartOf: everynode.PartOfValue},
			Annotations: map[string]string{
				"kubernetes.io/description": "A migration that has not finished. Run `" + options.Program + " migrate` again to continue.",
			},
		},
		Data: map[string]string{keyOld: string(before), keyNew: string(after), keyOldUID: string(r.oldUID)},
	}, metav1.CreateOptions{FieldManager: options.FieldManager, DryRun: dryRun})
	return options.Explain(err, options.Request{Verb: "create", Resource: configMaps(), Namespace: r.old.GetNamespace(), Name: r.name})
}

// remove deletes the record.
func (r *record) remove(ctx context.Context, c *options.Clients) error {
	err := c.Kubernetes.CoreV1().ConfigMaps(r.new.GetNamespace()).Delete(ctx, r.name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return options.Explain(err, options.Request{Verb: "delete", Resource: configMaps(), Namespace: r.new.GetNamespace(), Name: r.name})
}
