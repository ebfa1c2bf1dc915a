// SPDX-License-Identifier: Apache-2.0

package everynode

import (
	"time"

	"everynode.dev/everynode/api/annotation"
)

// Annotations that extend OpenYurt's annotations on a DaemonSet of apps/v1.
const (
	// FailureAttributionWindow is the failure attribution window of the update strategy AdvancedRollingUpdate, a duration such as 10m
	// or 90s: if a node stops being ready within this time after its old pod was deleted or its new pod was created, the
	// failure is attributed to the update, and the node uses the budget. The window also covers the same time before the
	// creation of the new pod, because the time at which the old pod was deleted is not stored. Nodes that the update
	// has not changed, or that stop being ready later, do not use the budget. The default is 10m.
	FailureAttributionWindow = Domain + "/failure-attribution-window"

	// BlameWindow is the deprecated name of FailureAttributionWindow. It has the same effect if FailureAttributionWindow is not set. An event and a
	// condition of the DaemonSet name the new annotation.
	BlameWindow = Domain + "/blame-window"
)

// Annotations on the Deployment of OpenYurt's yurt-manager.
const (
	// KeptControllers is the value of its flag --controllers before `kubectl everynode adopt openyurt` disabled the
	// controller that Everynode replaces. It is used by adopt openyurt --back. Do not set it.
	KeptControllers = Domain + "/kept-controllers"
)

// FailureAttributionWindowValue is the value of FailureAttributionWindow.
var FailureAttributionWindowValue = window(FailureAttributionWindow)

// BlameWindowValue is the value of BlameWindow.
var BlameWindowValue = window(BlameWindow)

func window(key string) annotation.Value[time.Duration] {
	return annotation.Of(annotation.Rule{
		Key: key, For: annotation.PlainOnly, Want: "a duration such as 10m or 90s", Correct: "set it to a duration such as 10m or 90s, or remove it for 10m",
	}, func(text string) (time.Duration, bool) {
		d, err := time.ParseDuration(text)
		return d, err == nil && d >= 0
	})
}
