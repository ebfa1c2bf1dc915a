// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1alpha1"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

func (v *validator) strategy(path *field.Path) {
	rolling := v.typed.UpdateStrategy.RollingUpdate
	switch kind := v.typed.UpdateStrategy.Type; kind {
	case v1beta1.OnDeleteDaemonSetStrategyType:
		if rolling != nil {
			v.warn(path.Child("rollingUpdate"), "has no effect with the type OnDelete")
		}
	case v1beta1.RollingUpdateDaemonSetStrategyType:
		if rolling == nil {
			v.report(field.Required(path.Child("rollingUpdate"), ""))
			return
		}
		v.rollingUpdate(rolling, path.Child("rollingUpdate"))
	default:
		v.report(field.NotSupported(path.Child("type"), kind, []v1beta1.DaemonSetUpdateStrategyType{
			v1beta1.RollingUpdateDaemonSetStrategyType, v1beta1.OnDeleteDaemonSetStrategyType,
		}))
	}
}

func (v *validator) rollingUpdate(rolling *v1beta1.RollingUpdateDaemonSet, path *field.Path) {
	unavailable, surge := rolling.MaxUnavailable, rolling.MaxSurge
	v.report(quantity(unavailable, path.Child("maxUnavailable"))...)
	v.report(quantity(surge, path.Child("maxSurge"))...)
	switch {
	case isSet(unavailable) && isSet(surge):
		v.report(field.Invalid(path.Child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero"))
	case !isSet(unavailable) && !isSet(surge):
		v.report(field.Required(path.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	v.rollingUpdateType(rolling, path)
	v.report(quantity(rolling.Partition, path.Child("partition"))...)
	if rolling.Selector != nil {
		v.report(metavalidation.ValidateLabelSelector(rolling.Selector, metavalidation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	}
	if isSet(surge) {
		v.hostPorts(field.NewPath("spec", "template", "spec"))
	}
}

func (v *validator) rollingUpdateType(rolling *v1beta1.RollingUpdateDaemonSet, path *field.Path) {
	known := []v1beta1.RollingUpdateType{v1beta1.StandardRollingUpdateType, v1beta1.InplaceRollingUpdateType}
	surging := v1beta1.RollingUpdateType(v1alpha1.DeprecatedSurgingRollingUpdateType)
	if v.alpha {
		known = append(known, surging)
	}
	switch kind := rolling.Type; {
	case kind == "" || kind == v1beta1.StandardRollingUpdateType:
	case kind == v1beta1.InplaceRollingUpdateType:
		if isSet(rolling.MaxSurge) {
			v.report(field.Required(path.Child("maxSurge"), "must be 0 for InPlaceIfPossible type"))
		}
	case kind == surging && v.alpha:
		v.warn(path.Child("rollingUpdateType"), "Surging is an old spelling; write Standard, with maxSurge 1 and maxUnavailable 0")
		if isSet(rolling.MaxUnavailable) {
			v.report(field.Required(path.Child("maxUnavailable"), "must be 0 for Surging type"))
		}
	default:
		v.report(field.NotSupported(path.Child("rollingUpdateType"), kind, known))
	}
}

// hostPorts warns about host ports, which two pods on the same node cannot share.
func (v *validator) hostPorts(spec *field.Path) {
	for i := range v.pods.Spec.InitContainers {
		container := &v.pods.Spec.InitContainers[i]
		// Only a container that keeps running uses its ports during the whole life of the pod.
		if policy := container.RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			v.hostPortsOf(container, spec.Child("initContainers").Index(i))
		}
	}
	for i := range v.pods.Spec.Containers {
		v.hostPortsOf(&v.pods.Spec.Containers[i], spec.Child("containers").Index(i))
	}
}

// hostPortsOf warns about the host ports of one container. With hostNetwork, each container port is a host port: the
// API server sets that.
func (v *validator) hostPortsOf(container *corev1.Container, path *field.Path) {
	for i, port := range container.Ports {
		at, number := path.Child("ports").Index(i).Child("hostPort"), port.HostPort
		if number == 0 && v.pods.Spec.HostNetwork {
			at, number = path.Child("ports").Index(i).Child("containerPort"), port.ContainerPort
		}
		if number != 0 {
			v.warn(at, fmt.Sprintf("with maxSurge the new pod cannot be scheduled next to the old one, which uses host port %d: "+
				"set maxUnavailable instead of maxSurge", number))
		}
	}
}

// burst validates the number of writes in one pass: with 0, nothing would ever be done.
func (v *validator) burst(path *field.Path) {
	burst := v.typed.BurstReplicas
	if burst == nil {
		return
	}
	errs := quantity(burst, path)
	if burst.Type == intstr.Int && burst.IntVal <= 0 || len(errs) == 0 && number(*burst) == 0 {
		errs = field.ErrorList{field.Invalid(path, burst, "must be greater than 0, or no pod would ever be created or deleted")}
	}
	v.report(errs...)
}

// scaling validates the two ways of requesting progressive creation in v1beta1.
func (v *validator) scaling(path *field.Path) {
	if v.alpha {
		return
	}
	spec, _ := v.obj["spec"].(map[string]any)
	scale, _ := spec["scaleStrategy"].(map[string]any)
	if scale["partitionedScaling"] == false && annotationsOf(v.obj)[kruise.ProgressiveCreate] == "true" {
		v.report(field.Invalid(path.Child("partitionedScaling"), false,
			`contradicts the annotation `+kruise.ProgressiveCreate+`: "true"; remove one of them`))
	}
}

// quantity validates a number or percentage.
func quantity(q *intstr.IntOrString, path *field.Path) field.ErrorList {
	if q == nil {
		return nil
	}
	if q.Type == intstr.Int {
		return nonNegative(int64(q.IntVal), path)
	}
	errs := field.ErrorList{}
	for _, message := range validation.IsValidPercent(q.StrVal) {
		errs = append(errs, field.Invalid(path, q, message))
	}
	if len(errs) == 0 && number(*q) > 100 {
		errs = append(errs, field.Invalid(path, q, "must not be greater than 100%"))
	}
	return errs
}

// isSet reports whether a budget is set and not 0. An invalid value counts as set.
func isSet(q *intstr.IntOrString) bool { return q != nil && number(*q) != 0 }

// number returns the number in q, without the percent sign; -1 if there is none, and a large number if it overflows.
func number(q intstr.IntOrString) int {
	if q.Type == intstr.Int {
		return int(q.IntVal)
	}
	digits := strings.TrimSuffix(q.StrVal, "%")
	n, err := strconv.Atoi(digits)
	switch {
	case err == nil:
		return n
	case digits != "" && strings.Trim(digits, "0123456789") == "":
		return int(^uint32(0) >> 1)
	default:
		return -1
	}
}
