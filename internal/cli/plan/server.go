// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/webhook/defaulting"
	"everynode.dev/everynode/internal/webhook/validation"
)

// The ways in which defaults are set.
const (
	triedByServer = "server"
	triedLocally  = "local"
)

// dryRunResult is an edited set that was not stored.
type dryRunResult struct {
	object *unstructured.Unstructured
	// by is who set defaults; why is the reason if it was not the server.
	by, why string
}

// try makes a dry run on the server, unless --local is given or the user may not.
func (q question) try(ctx context.Context, c *options.Clients) (dryRunResult, error) {
	set, e := q.named, q.edit
	if q.local {
		object, err := tryLocally(set, e)
		return dryRunResult{object: object, by: triedLocally, why: "because of --local"}, err
	}
	object, err := e.send(ctx, c, set, []string{metav1.DryRunAll})
	switch {
	case err == nil:
		return dryRunResult{object: object, by: triedByServer}, nil
	case apierrors.IsForbidden(err) && !allowed(ctx, c, set, e):
		object, err := tryLocally(set, e)
		return dryRunResult{object: object, by: triedLocally, why: fmt.Sprintf("because you may not %s %s", e.verb(), set.Resource.GroupResource())}, err
	case apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err):
		return dryRunResult{}, fmt.Errorf("trying the edit on the server: %w (--local does not use the server)", err)
	default:
		return dryRunResult{}, fmt.Errorf("the server refuses the edit: %w", err)
	}
}

func (e Edit) verb() string {
	if e.Type == typeCreate {
		return "create"
	}
	return "patch"
}

// send sends the edit of a set.
func (e Edit) send(ctx context.Context, c *options.Clients, set *resolver.Set, dryRun []string) (*unstructured.Unstructured, error) {
	sets := c.Dynamic.Resource(set.Resource).Namespace(set.Namespace())
	if e.Type == typeCreate {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(e.Patch); err != nil {
			return nil, fmt.Errorf("reading the new set: %w", err)
		}
		return sets.Create(ctx, object, metav1.CreateOptions{DryRun: dryRun, FieldManager: options.FieldManager, FieldValidation: metav1.FieldValidationStrict})
	}
	return sets.Patch(ctx, set.Name(), types.PatchType(e.Type), e.Patch,
		metav1.PatchOptions{DryRun: dryRun, FieldManager: options.FieldManager, FieldValidation: metav1.FieldValidationStrict})
}

// allowed reports whether the user may send an edit; if so, a rejection has another reason.
func allowed(ctx context.Context, c *options.Clients, set *resolver.Set, e Edit) bool {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: set.Namespace(), Verb: e.verb(), Group: set.Resource.Group, Resource: set.Resource.Resource, Name: set.Name(),
		},
	}}
	answer, err := c.Kubernetes.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed
}

// tryLocally estimates what the server would store: the edit, the defaults that affect a rollout, and the generations.
func tryLocally(set *resolver.Set, e Edit) (*unstructured.Unstructured, error) {
	edited, err := patched(set, e)
	if err != nil {
		return nil, err
	}
	if set.Advanced() {
		defaulting.Default(edited.Object)
	} else {
		live := set.Object
		if e.Type == typeCreate {
			live = &unstructured.Unstructured{} // the file has the whole object
		}
		if err := known(edited, live); err != nil {
			return nil, fmt.Errorf("the edit cannot be honoured: %w", err)
		}
		defaults(edited.Object)
	}
	if e.Type == typeCreate {
		edited.SetGeneration(1)
		return edited, validationError(set, validation.Create(edited.Object, validation.Options{}))
	}
	if !reflect.DeepEqual(edited.Object["spec"], set.Object.Object["spec"]) {
		edited.SetGeneration(set.Object.GetGeneration() + 1)
	}
	templates := nested(edited.Object, "spec", "template")
	if !set.Advanced() && !reflect.DeepEqual(templates, nested(set.Object.Object, "spec", "template")) {
		annotations := edited.GetAnnotations()
		if n, err := strconv.ParseInt(annotations[appsv1.DeprecatedTemplateGeneration], 10, 64); err == nil {
			annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(n+1, 10)
			edited.SetAnnotations(annotations)
		}
	}
	return edited, validationError(set, validation.Update(edited.Object, set.Object.Object, validation.Options{}))
}

// known returns an error for fields of an edited DaemonSet that apps/v1 does not have. Fields that the set already has
// are accepted: the server has a newer version.
func known(edited, live *unstructured.Unstructured) error {
	wrong, err := unknownFields(edited)
	if err != nil {
		return err
	}
	if old, err := unknownFields(live); err == nil {
		wrong = slices.DeleteFunc(wrong, func(text string) bool { return slices.Contains(old, text) })
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%s: a DaemonSet of apps/v1 has none of this name; remove it, or correct its name", strings.Join(wrong, ", "))
}

// unknownFields returns the fields of a DaemonSet that apps/v1 does not have, each as: unknown field "spec.x".
func unknownFields(object *unstructured.Unstructured) ([]string, error) {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &appsv1.DaemonSet{}, true)
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return nil, err //nolint:wrapcheck // the caller adds the context
	}
	var texts []string
	for _, one := range strict.Errors() {
		texts = append(texts, one.Error())
	}
	return texts, nil
}

// validationError returns the error of our own validation of an Advanced DaemonSet.
func validationError(set *resolver.Set, result validation.Result) error {
	if !set.Advanced() || len(result.Errors) == 0 {
		return nil
	}
	return fmt.Errorf("the edit cannot be honoured: %w", result.Errors.ToAggregate())
}

// patched returns the set with the edit.
func patched(set *resolver.Set, e Edit) (*unstructured.Unstructured, error) {
	original, err := json.Marshal(set.Object.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", set, err)
	}
	var data []byte
	switch types.PatchType(e.Type) {
	case types.JSONPatchType:
		var ops jsonpatch.Patch
		if ops, err = jsonpatch.DecodePatch(e.Patch); err == nil {
			data, err = ops.Apply(original)
		}
	case types.MergePatchType:
		data, err = jsonpatch.MergePatch(original, e.Patch)
	case types.StrategicMergePatchType:
		data, err = strategicpatch.StrategicMergePatch(original, e.Patch, appsv1.DaemonSet{})
	default:
		data = e.Patch
	}
	if err != nil {
		return nil, fmt.Errorf("applying the edit to %s: %w", set, err)
	}
	edited := &unstructured.Unstructured{}
	if err := edited.UnmarshalJSON(data); err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s after the edit", set), err)
	}
	return edited, nil
}

// defaults sets the defaults of apps/v1 that affect a rollout.
func defaults(object map[string]any) {
	spec := nested(object, "spec")
	if spec == nil {
		return
	}
	missing(spec, "updateStrategy", map[string]any{})
	update := nested(spec, "updateStrategy")
	missing(update, "type", string(appsv1.RollingUpdateDaemonSetStrategyType))
	if update["type"] == string(appsv1.RollingUpdateDaemonSetStrategyType) {
		missing(update, "rollingUpdate", map[string]any{})
		rolling := nested(update, "rollingUpdate")
		missing(rolling, "maxUnavailable", int64(1))
		missing(rolling, "maxSurge", int64(0))
	}
	missing(spec, "revisionHistoryLimit", int64(10))
}

func missing(object map[string]any, key string, value any) {
	if object != nil && object[key] == nil {
		object[key] = value
	}
}
