// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/options"
)

// Backups are compressed JSON: a CRD of OpenKruise is larger than a ConfigMap may be.
const (
	backupPrefix = "everynode-kept-"
	keptKey      = "object.json.gz"
	// longestKept is the maximum size of an uncompressed backup.
	longestKept = 64 << 20
)

func (t resourceRef) kept() string { return backupPrefix + t.name }

func backupRequest(verb, name string) options.Request {
	return options.Request{Verb: verb, Resource: corev1.Resource("configmaps"), Namespace: everynode.Namespace, Name: name}
}

// backUp stores a backup of an object, unless there is an earlier one: the current object may be partly replaced.
func (t resourceRef) backUp(ctx context.Context, c *options.Clients, object *unstructured.Unstructured, dryRun []string) error {
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	raw, err := object.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encoding %s: %w", t, err)
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err = zip.Write(raw); err == nil {
		err = zip.Close()
	}
	if err != nil {
		return fmt.Errorf("compressing %s: %w", t, err)
	}
	_, err = c.Kubernetes.CoreV1().ConfigMaps(everynode.Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: everynode.Namespace, Name: t.kept(), Labels: map[string]string{everynode.PartOf: everynode.PartOfValue},
			Annotations: map[string]string{"kubernetes.io/description": "What Everynode has replaced; `" + options.Program + " adopt --back` puts it back."},
		},
		BinaryData: map[string][]byte{keptKey: packed.Bytes()},
	}, metav1.CreateOptions{FieldManager: options.FieldManager, DryRun: dryRun})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no namespace %s for the backups: install Everynode first (config/install)", everynode.Namespace)
	}
	return options.Explain(err, backupRequest("create", t.kept()))
}

// readBackup returns the backup, or nil.
func (t resourceRef) readBackup(ctx context.Context, c *options.Clients) (*unstructured.Unstructured, error) {
	held, err := c.Kubernetes.CoreV1().ConfigMaps(everynode.Namespace).Get(ctx, t.kept(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // not found is not an error
	}
	if err != nil {
		return nil, options.Explain(err, backupRequest("get", t.kept()))
	}
	zip, err := gzip.NewReader(bytes.NewReader(held.BinaryData[keptKey]))
	if err != nil {
		return nil, fmt.Errorf("the ConfigMap %s/%s cannot be unpacked: %w", everynode.Namespace, t.kept(), err)
	}
	raw, err := io.ReadAll(io.LimitReader(zip, longestKept))
	if err != nil {
		return nil, fmt.Errorf("the ConfigMap %s/%s cannot be unpacked: %w", everynode.Namespace, t.kept(), err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("the ConfigMap %s/%s holds no object: %w", everynode.Namespace, t.kept(), err)
	}
	return object, nil
}

// deleteBackup deletes the backup.
func (t resourceRef) deleteBackup(ctx context.Context, c *options.Clients, dryRun []string) error {
	err := c.Kubernetes.CoreV1().ConfigMaps(everynode.Namespace).Delete(ctx, t.kept(), metav1.DeleteOptions{DryRun: dryRun})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return options.Explain(err, backupRequest("delete", t.kept()))
}
