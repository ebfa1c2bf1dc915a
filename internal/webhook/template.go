// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
)

// TemplateChecker validates a pod template with the API server of this cluster.
type TemplateChecker interface {
	Check(ctx context.Context, namespace string, template map[string]any) (Judgement, error)
}

// Judgement is the result of the API server for a pod template. All paths in it are relative to spec.template.
type Judgement struct {
	// Defaulted is the template with all defaults; nil if it is invalid.
	Defaulted map[string]any
	Wrong     field.ErrorList
	Warnings  []string
}

// DryRun is a TemplateChecker that creates a PodTemplate of core/v1 as a dry run. Request and response stay undecoded,
// so fields that only the API server has are checked, defaulted and kept. The client's warning handler, Collecting,
// collects the warnings of the API server.
type DryRun struct {
	Client dynamic.Interface
}

// Check implements TemplateChecker.
func (d *DryRun) Check(ctx context.Context, namespace string, template map[string]any) (Judgement, error) {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PodTemplate",
		"metadata": map[string]any{"generateName": "everynode-check-", "namespace": namespace},
		"template": template,
	}}
	templates := d.Client.Resource(corev1.SchemeGroupVersion.WithResource("podtemplates")).Namespace(namespace)
	ctx, warnings := collect(ctx)
	answer, err := templates.Create(ctx, obj, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	if err != nil {
		wrong, ok := wrongWith(err)
		if !ok {
			return Judgement{}, fmt.Errorf("asking the API server about the pod template: %w", err)
		}
		return Judgement{Wrong: wrong, Warnings: warnings()}, nil
	}
	defaulted, ok := answer.Object["template"].(map[string]any)
	if !ok {
		return Judgement{}, errors.New("asking the API server about the pod template: its answer has none")
	}
	if metadata, ok := defaulted["metadata"].(map[string]any); ok && metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp") // some versions write null, which means absent
	}
	return Judgement{Defaulted: defaulted, Warnings: warnings()}, nil
}

// wrongWith converts the API server's rejection of a PodTemplate to errors about spec.template; ok is false if err is
// not such a rejection.
func wrongWith(err error) (wrong field.ErrorList, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil, false
	}
	switch s := status.Status(); {
	case s.Reason == metav1.StatusReasonInvalid && s.Details != nil && len(s.Details.Causes) > 0:
		for _, cause := range s.Details.Causes {
			wrong = append(wrong, fromCause(cause))
		}
		return wrong, true
	case s.Code == http.StatusBadRequest || s.Reason == metav1.StatusReasonBadRequest:
		return undecodable(s.Message), true
	default:
		return nil, false
	}
}

// fromCause converts a cause to an error below spec, with the same text: that of the cause begins with the description
// of its type.
func fromCause(cause metav1.StatusCause) *field.Error {
	kind := field.ErrorType(cause.Type)
	switch kind {
	case field.ErrorTypeNotFound, field.ErrorTypeRequired, field.ErrorTypeDuplicate, field.ErrorTypeInvalid, field.ErrorTypeNotSupported,
		field.ErrorTypeForbidden, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
	default: // a type that only the API server has, without a description here
		kind = field.ErrorTypeInvalid
	}
	detail := strings.TrimPrefix(strings.TrimPrefix(cause.Message, kind.String()), ": ")
	return &field.Error{Type: kind, Field: belowSpec(cause.Field), BadValue: field.OmitValueType{}, Detail: detail}
}

// belowSpec converts a path in a PodTemplate to a path in a DaemonSet. The API server omits the metadata of the
// template from the paths of its errors.
func belowSpec(path string) string {
	for _, inMetadata := range []string{"labels", "annotations"} {
		if rest, ok := strings.CutPrefix(path, "template."+inMetadata); ok {
			return "spec.template.metadata." + inMetadata + rest
		}
	}
	return "spec." + path
}

// undecodable returns the errors about a template that cannot be decoded: its unknown fields, by path, or else the
// message of the decoder.
func undecodable(message string) (wrong field.ErrorList) {
	for _, match := range regexp.MustCompile(`unknown field "([^"]+)"`).FindAllStringSubmatch(message, -1) {
		path := "spec." + match[1]
		wrong = append(wrong, field.Forbidden(field.NewPath(path),
			fmt.Sprintf("unknown field %q: a pod template has none of this name; remove it, or correct its name", path)))
	}
	if len(wrong) == 0 {
		_, words, ok := strings.Cut(message, "cannot be handled as a PodTemplate: ")
		if !ok {
			words = message
		}
		wrong = field.ErrorList{field.Invalid(field.NewPath("spec", "template"), field.OmitValueType{},
			"Convert_v1_PodTemplateSpec_To_core_PodTemplateSpec failed: "+words)}
	}
	return wrong
}
