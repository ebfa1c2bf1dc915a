// SPDX-License-Identifier: Apache-2.0

package fakecluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/config"
)

// tryPolicies answers dry runs that create or patch rollout policies: it validates the specification by the schema of the CRD, without its CEL rules, and stores nothing.
func (c *Cluster) tryPolicies(tb testing.TB) {
	validate := func(name string, object map[string]any) (runtime.Object, error) {
		if errs := invalid(field.NewPath("spec"), object["spec"], policySpec(tb)); len(errs) > 0 {
			return nil, apierrors.NewInvalid(schema.GroupKind{Group: v1alpha1.GroupVersion().Group, Kind: v1alpha1.KindPolicy}, name, errs)
		}
		return &unstructured.Unstructured{Object: object}, nil
	}
	c.Dynamic.PrependReactor("create", v1alpha1.ResourcePolicies, func(action clienttesting.Action) (bool, runtime.Object, error) {
		created, ok := action.(clienttesting.CreateActionImpl)
		if !ok || len(created.CreateOptions.DryRun) == 0 {
			return false, nil, nil
		}
		object, ok := created.GetObject().(*unstructured.Unstructured)
		if !ok {
			return true, nil, apierrors.NewBadRequest(fmt.Sprintf("the object is a %T", created.GetObject()))
		}
		if _, err := c.Dynamic.Tracker().Get(created.GetResource(), created.GetNamespace(), object.GetName()); err == nil {
			return true, nil, apierrors.NewAlreadyExists(created.GetResource().GroupResource(), object.GetName())
		}
		data, err := object.MarshalJSON() // numbers as a client sends them
		wanted := map[string]any{}
		if err = errors.Join(err, json.Unmarshal(data, &wanted)); err != nil {
			return true, nil, apierrors.NewBadRequest(err.Error())
		}
		result, err := validate(object.GetName(), wanted)
		return true, result, err
	})
	c.Dynamic.PrependReactor("patch", v1alpha1.ResourcePolicies, func(action clienttesting.Action) (bool, runtime.Object, error) {
		p, ok := action.(clienttesting.PatchActionImpl)
		if !ok || len(p.PatchOptions.DryRun) == 0 || p.GetPatchType() != types.JSONPatchType {
			return false, nil, nil
		}
		var ops []struct {
			Path  string
			Value any
		}
		if err := json.Unmarshal(p.GetPatch(), &ops); err != nil || len(ops) != 1 || ops[0].Path != "/spec" {
			return true, nil, apierrors.NewBadRequest(fmt.Sprintf("the patch is %s: %v", p.GetPatch(), err))
		}
		result, err := validate(p.GetName(), map[string]any{"spec": ops[0].Value})
		return true, result, err
	})
}

// policySpec is the schema of the specification of a policy.
func policySpec(tb testing.TB) *apiextensionsv1.JSONSchemaProps {
	names, err := fs.Glob(config.Policy, "policy/*-crd-rolloutpolicies.everynode.dev.yaml")
	if err != nil || len(names) != 1 {
		tb.Fatalf("found the definitions %q: %v", names, err)
	}
	data, err := config.Policy.ReadFile(names[0])
	if err != nil {
		tb.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		tb.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	return &spec
}

// invalid returns what a schema does not allow.
func invalid(path *field.Path, value any, s *apiextensionsv1.JSONSchemaProps) (errs field.ErrorList) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				errs = append(errs, field.Required(path.Child(name), ""))
			}
		}
		if s.MinProperties != nil && int64(len(v)) < *s.MinProperties {
			errs = append(errs, field.Invalid(path, len(v), "should have more properties"))
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if of, ok := s.Properties[name]; ok {
				errs = append(errs, invalid(path.Child(name), v[name], &of)...)
			}
		}
	case []any:
		seen := map[any]bool{}
		for i := range v {
			if of, ok := v[i].(map[string]any); ok && len(s.XListMapKeys) == 1 {
				if key := of[s.XListMapKeys[0]]; seen[key] {
					errs = append(errs, field.Duplicate(path.Index(i), key))
				} else {
					seen[key] = true
				}
			}
			errs = append(errs, invalid(path.Index(i), v[i], s.Items.Schema)...)
		}
	case string:
		if matched, err := regexp.MatchString(s.Pattern, v); s.Pattern != "" && (err != nil || !matched) {
			errs = append(errs, field.Invalid(path, v, fmt.Sprintf("should match '%s'", s.Pattern)))
		}
		if among := func(e apiextensionsv1.JSON) bool { return string(e.Raw) == fmt.Sprintf("%q", v) }; len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, among) {
			errs = append(errs, field.NotSupported(path, v, []string{}))
		}
	case float64:
		if s.Minimum != nil && v < *s.Minimum {
			errs = append(errs, field.Invalid(path, v, fmt.Sprintf("should be greater than or equal to %v", *s.Minimum)))
		}
	}
	return errs
}
