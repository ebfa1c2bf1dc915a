// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/cli/options"
)

// storedVersion is the version in which Everynode stores objects.
const storedVersion = kruise.VersionStored

func served(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: kruise.Group, Version: storedVersion, Resource: resource}
}

// undo restores the backups.
func (v *verb) undo(ctx context.Context, c *options.Clients) error {
	kept, err := v.backedUpDefinitions(ctx, c)
	if err != nil {
		return err
	}
	hooks := 0
	for _, hook := range theirHooks() {
		one, err := hook.readBackup(ctx, c)
		if err != nil {
			return err
		}
		if one != nil {
			hooks++
		}
	}
	if len(kept)+hooks == 0 {
		return errors.New("there is no backup to restore: adopt has not replaced anything here, or it has been restored already")
	}
	if err := v.refuseIfActive(ctx, c, ourManager()); err != nil {
		return err
	}
	for _, hook := range ourHooks() {
		found, err := hook.get(ctx, c)
		if err != nil {
			return err
		}
		if found == nil {
			continue
		}
		if err := v.do(ctx, hook.String()+" removed", func(ctx context.Context) error { return hook.remove(ctx, c, v.ServerSide()) }); err != nil {
			return err
		}
	}
	v.forgetConditions(ctx, c)
	for _, one := range kept {
		if err := v.restore(ctx, c, one); err != nil {
			return err
		}
	}
	for _, hook := range theirHooks() {
		if err := v.restoreHook(ctx, c, hook); err != nil {
			return err
		}
	}
	v.hint("scale OpenKruise's manager up now")
	return nil
}

// backedUpDefinitions returns the backups of existing CRDs. Each has every version in which objects are stored.
func (v *verb) backedUpDefinitions(ctx context.Context, c *options.Clients) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, resource := range resources() {
		t := definition(resource)
		kept, err := t.readBackup(ctx, c)
		if err != nil {
			return nil, err
		}
		now, err := t.get(ctx, c)
		if err != nil {
			return nil, err
		}
		if kept == nil || now == nil {
			continue
		}
		if err := covers(kept, now, "OpenKruise's"); err != nil {
			return nil, fmt.Errorf("%w: install a version of OpenKruise that has it, or first store all objects in a version that it has (docs/migration.md)", err)
		}
		all = append(all, kept)
	}
	return all, nil
}

// restore restores a CRD.
func (v *verb) restore(ctx context.Context, c *options.Clients, kept *unstructured.Unstructured) error {
	t := definitionRef(kept.GetName())
	return v.do(ctx, t.String()+" put back", func(ctx context.Context) error {
		now, err := t.get(ctx, c)
		if err != nil {
			return err
		}
		if now == nil {
			return fmt.Errorf("%s was deleted in the meantime", t)
		}
		now.Object["spec"] = kept.Object["spec"]
		now.SetLabels(kept.GetLabels())
		now.SetAnnotations(kept.GetAnnotations())
		if err := v.update(ctx, c, t, now); err != nil {
			return err
		}
		return t.deleteBackup(ctx, c, v.ServerSide())
	})
}

// restoreHook restores a webhook configuration.
func (v *verb) restoreHook(ctx context.Context, c *options.Clients, hook resourceRef) error {
	kept, err := hook.readBackup(ctx, c)
	if err != nil || kept == nil {
		return err
	}
	return v.do(ctx, hook.String()+" put back", func(ctx context.Context) error {
		fresh := kept.DeepCopy()
		fresh.SetResourceVersion("")
		fresh.SetUID("")
		fresh.SetGeneration(0)
		fresh.SetCreationTimestamp(metav1.Time{})
		_, err := hook.client(c).Create(ctx, fresh, metav1.CreateOptions{FieldManager: options.FieldManager, DryRun: v.ServerSide()})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return options.Explain(err, hook.request("create"))
		}
		return hook.deleteBackup(ctx, c, v.ServerSide())
	})
}
