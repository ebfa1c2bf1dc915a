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
	force, patch, kind := true, []byte(nil), types.ApplyPatchType
	how := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: options.FieldManager, FieldValidation: metav1.FieldValidationStrict}
	if stored != nil { // apply would merge the waves of both, but the file replaces the specification
		kind = types.JSONPatchType
		patch, err = json.Marshal([]map[string]any{{"op": "add", "path": "/spec", "value": p.Object.Object["spec"]}})
	} else {
		how.Force = &force
		wanted := &unstructured.Unstructured{Object: map[string]any{"apiVersion": p.Typed.APIVersion, "kind": p.Typed.Kind, "spec": p.Object.Object["spec"]}}
		wanted.SetName(p.Typed.Name)
		wanted.SetNamespace(p.Typed.Namespace)
		wanted.SetLabels(p.Typed.Labels)
		wanted.SetAnnotations(p.Typed.Annotations)
		patch, err = wanted.MarshalJSON()
	}
	if err != nil {
		return nil, fmt.Errorf("encoding the policy: %w", err)
	}
	_, err = c.Dynamic.Resource(Resource()).Namespace(p.Typed.Namespace).Patch(ctx, p.Typed.Name, kind, patch, how)
	request := options.Request{Verb: "patch", Resource: Resource().GroupResource(), Namespace: p.Typed.Namespace, Name: p.Typed.Name}
	const cannotCreate = `" cannot create resource "`
	switch {
	case err == nil:
		return nil, nil
	case absent(c, err):
		return ErrMissing, nil
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return nil, err //nolint:wrapcheck // the caller names the file
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), cannotCreate):
		request.Verb = "create"
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), `" cannot patch resource "`):
		return nil, err //nolint:wrapcheck // an admission policy or a webhook refuses it
	}
	return options.Explain(err, request), nil
}
