// SPDX-License-Identifier: Apache-2.0

package integration

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Short names for what is written often.
type (
	daemonSet = appsv1.DaemonSet
	status    = appsv1.DaemonSetStatus
)

// tooMuch is more CPU than any node has.
var tooMuch = resource.MustParse("1000000")

// templateGeneration is the label of a pod with the generation of the template that it was made from.
const templateGeneration = "pod-template-generation"
