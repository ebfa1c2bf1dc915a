// SPDX-License-Identifier: Apache-2.0

// Package features declares the feature gates of the manager, with Kubernetes' own library for them.
package features

import (
	"errors"

	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// ConflictProbe keeps the native dialect from writing while another controller reconciles DaemonSets of apps/v1. Without it
// that is for the operator to see to.
const ConflictProbe featuregate.Feature = "ConflictProbe"

// InPlaceWorkloadVerticalScaling lets an Advanced DaemonSet change the cpu and memory of containers in place, through the subresource
// resize of pods. OpenKruise has it under the same name. Without it a pod whose resources differ is recreated.
const InPlaceWorkloadVerticalScaling featuregate.Feature = "InPlaceWorkloadVerticalScaling"

// PreDownloadImageForDaemonSetUpdate has daemon sets of all dialects pull new images on the nodes of old pods, by ImagePullJobs, before they
// are updated, and lets updates wait for that. OpenKruise has it under the same name, for its own daemon sets.
const PreDownloadImageForDaemonSetUpdate featuregate.Feature = "PreDownloadImageForDaemonSetUpdate"

// New returns a gate that knows every feature, those of the logging library included.
func New() (featuregate.MutableFeatureGate, error) {
	gate := featuregate.NewFeatureGate()
	err := errors.Join(logsapi.AddFeatureGates(gate), gate.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		ConflictProbe:                      {Default: true, PreRelease: featuregate.Beta},
		InPlaceWorkloadVerticalScaling:     {Default: true, PreRelease: featuregate.Beta},
		PreDownloadImageForDaemonSetUpdate: {Default: false, PreRelease: featuregate.Alpha},
	}))
	return gate, err
}
