// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/view"
	kruisedialect "everynode.dev/everynode/internal/dialect/kruise"
)

// forgetConditions removes Everynode's conditions from the Advanced DaemonSets. OpenKruise writes none and keeps those that it finds, so tools would read the last
// ones for ever. It must not block the way back, so an error is only reported.
func (v *verb) forgetConditions(ctx context.Context, c *options.Clients) {
	count, list := 0, metav1.ListOptions{Limit: 500}
	for {
		sets, err := c.Dynamic.Resource(served(kruise.Resource)).List(ctx, list)
		if err != nil {
			v.conditionsStay(options.Explain(err, options.Request{Verb: "list", Resource: served(kruise.Resource).GroupResource()}))
			return
		}
		for i := range sets.Items {
			changed, err := v.forgetConditionsOf(ctx, c, &sets.Items[i])
			if err != nil {
				v.conditionsStay(err)
				return
			}
			if changed {
				count++
			}
		}
		if list.Continue = sets.GetContinue(); list.Continue == "" {
			break
		}
	}
	if count > 0 {
		v.printStep("conditions of %s removed", view.Plural(count, "Advanced DaemonSet"))
	}
}

// forgetConditionsOf removes Everynode's conditions from one set, and reports whether it has had any.
func (v *verb) forgetConditionsOf(ctx context.Context, c *options.Clients, set *unstructured.Unstructured) (changed bool, err error) {
	conditions, _, _ := unstructured.NestedSlice(set.Object, "status", "conditions")
	others := slices.DeleteFunc(slices.Clone(conditions), func(one any) bool {
		condition, _ := one.(map[string]any)
		kind, _ := condition["type"].(string)
		return kruisedialect.OwnCondition(kind)
	})
	if len(others) == len(conditions) || !v.sent() {
		return len(others) < len(conditions), nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": set.GetResourceVersion()}, "status": map[string]any{"conditions": others}})
	if err != nil {
		return false, err
	}
	client := c.Dynamic.Resource(served(kruise.Resource)).Namespace(set.GetNamespace())
	_, err = client.Patch(ctx, set.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: options.FieldManager, DryRun: v.ServerSide()}, "status")
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	resource := served(kruise.Resource).GroupResource()
	resource.Resource += "/status"
	return true, options.Explain(err, options.Request{Verb: "patch", Resource: resource, Namespace: set.GetNamespace(), Name: set.GetName()})
}

// conditionsStay reports that conditions could not be removed.
func (v *verb) conditionsStay(err error) {
	v.Note("the conditions that Everynode has written into Advanced DaemonSets could not be removed (%v). OpenKruise keeps them, and tools read them: "+
		"remove them when OpenKruise's manager runs (docs/migration.md)", err)
}
