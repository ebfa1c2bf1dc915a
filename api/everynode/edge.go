// SPDX-License-Identifier: Apache-2.0

package everynode

import (
	"time"

	"everynode.dev/everynode/api/annotation"
)

// Annotations that extend OpenYurt's annotations on a DaemonSet of apps/v1.
const (
	// FailureAttributionWindow is how long after the old pod of a node was deleted, or its new pod was created, a node that stops being ready is taken for
	// one that the new version has broken, and uses up the budget: a duration such as 10m or 90s. It counts as long before the new pod was
	// created as after, because the old one was deleted at a time that nothing tells any more. It goes with the update strategy
	// AdvancedRollingUpdate. Nodes that the update has not touched, or that stop being ready later, use up nothing. Without the annotation
	// it is 10m.
	FailureAttributionWindow = Domain + "/failure-attribution-window"

	// BlameWindow is the name of FailureAttributionWindow in earlier versions. It has the same effect where the new one is not set, and an event and a condition
	// ask for the new one.
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
