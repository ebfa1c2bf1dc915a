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

// hostPorts warns of ports of the node, which two pods on the same node cannot both have.
func (v *validator) hostPorts(spec *field.Path) {
	for i := range v.pods.Spec.InitContainers {
		container := &v.pods.Spec.InitContainers[i]
		// Only one that keeps running has its ports for as long as the pod lives.
		if policy := container.RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			v.hostPortsOf(container, spec.Child("initContainers").Index(i))
		}
	}
	for i := range v.pods.Spec.Containers {
		v.hostPortsOf(&v.pods.Spec.Containers[i], spec.Child("containers").Index(i))
	}
}

// hostPortsOf warns of the ports of one container. In the network of the node a port of the container is one of the node: the
// API server says so when the pod is created.
func (v *validator) hostPortsOf(container *corev1.Container, path *field.Path) {
	for i, port := range container.Ports {
		at, number := path.Child("ports").Index(i).Child("hostPort"), port.HostPort
		if number == 0 && v.pods.Spec.HostNetwork {
			at, number = path.Child("ports").Index(i).Child("containerPort"), port.ContainerPort
		}
		if number != 0 {
			v.warn(at, fmt.Sprintf("with maxSurge the new pod cannot be scheduled beside the old one, which has port %d of the node: "+
				"set maxUnavailable instead of maxSurge", number))
		}
	}
}

// burst judges how many writes one pass may do: 0 would mean that nothing is ever done.
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

// scaling judges the two ways in which progressive creation can be asked for in v1beta1.
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

// quantity judges a number or percentage.
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

// isSet is whether a budget is there and not 0. One that cannot be read counts as set: it was meant to be.
func isSet(q *intstr.IntOrString) bool { return q != nil && number(*q) != 0 }

// number is the number in q, without the percent sign; -1 if it has none, and a big one if it is too big.
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
