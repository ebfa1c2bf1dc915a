// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/cli/options"
)

// Validate lets the API server validate a policy that was read from a file, in a dry run. stored is the policy of the cluster with this name; nil if there is none, or if that
// is not known. unasked is the reason why the server could not be asked; err is its refusal.
func Validate(ctx context.Context, c *options.Clients, p, stored *Policy) (unasked, err error) {
	verb := "patch"
	if stored == nil {
		verb, err = "create", tryCreate(ctx, c, p)
	}
	if stored != nil || apierrors.IsAlreadyExists(err) { // apply would merge the waves of both, but the file replaces the specification
		verb, err = "patch", tryPatch(ctx, c, p)
	}
	switch {
	case err == nil:
		return nil, nil
	case absent(c, err):
		return ErrMissing, nil
	case apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run"): // of a webhook with side effects, which says nothing about the policy
		return err, nil
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return nil, err
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), `" cannot `+verb+` resource "`):
		return nil, err // an admission policy or a webhook refuses it
	}
	return options.Explain(err, options.Request{Verb: verb, Resource: Resource().GroupResource(), Namespace: p.Typed.Namespace, Name: p.Typed.Name}), nil
}

// tryCreate creates a policy in a dry run. Server-side apply would not do: it answers a wave that is there twice with an internal error, and not with what is wrong.
func tryCreate(ctx context.Context, c *options.Clients, p *Policy) error {
	wanted := &unstructured.Unstructured{Object: map[string]any{"apiVersion": p.Typed.APIVersion, "kind": p.Typed.Kind, "spec": p.Object.Object["spec"]}}
	wanted.SetName(p.Typed.Name)
	wanted.SetNamespace(p.Typed.Namespace)
	wanted.SetLabels(p.Typed.Labels)
	wanted.SetAnnotations(p.Typed.Annotations)
	how := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: options.FieldManager, FieldValidation: metav1.FieldValidationStrict}
	_, err := c.Dynamic.Resource(Resource()).Namespace(p.Typed.Namespace).Create(ctx, wanted, how)
	return err //nolint:wrapcheck // the caller names the file
}

// tryPatch replaces the specification of the policy of the cluster in a dry run.
func tryPatch(ctx context.Context, c *options.Clients, p *Policy) error {
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/spec", "value": p.Object.Object["spec"]}})
	if err != nil {
		return fmt.Errorf("encoding the policy: %w", err)
	}
	how := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: options.FieldManager, FieldValidation: metav1.FieldValidationStrict}
	_, err = c.Dynamic.Resource(Resource()).Namespace(p.Typed.Namespace).Patch(ctx, p.Typed.Name, types.JSONPatchType, patch, how)
	return err //nolint:wrapcheck // the caller names the file
}
