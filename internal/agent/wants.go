// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/pull"
	"everynode.dev/everynode/internal/imageref"
)

// pullSpec has the parts of a want that do not affect the decision.
type pullSpec struct {
	ref     imageref.Full
	secrets []v1beta1.ReferenceObject
	sandbox *v1beta1.SandboxConfig
	owners  []corev1.ObjectReference
	// ofPod reports whether a pod requests the image: its secrets are in its own namespace.
	ofPod bool
}

// wantsOf converts a specification.
func wantsOf(spec v1beta1.NodeImageSpec) ([]pull.Want, map[pull.Key]pullSpec) {
	wants, specs := []pull.Want{}, map[pull.Key]pullSpec{}
	for _, image := range slices.Sorted(maps.Keys(spec.Images)) {
		of := spec.Images[image]
		for i := range of.Tags {
			w, o := wantOf(image, of, &of.Tags[i])
			if _, twice := specs[w.Key]; !twice {
				wants, specs[w.Key] = append(wants, w), o
			}
		}
	}
	return wants, specs
}

func wantOf(image string, of v1beta1.ImageSpec, tag *v1beta1.ImageTagSpec) (pull.Want, pullSpec) {
	w := pull.Want{
		Key:    pull.Key{Image: image, Tag: tag.Tag, Version: tag.Version},
		Always: tag.ImagePullPolicy == v1beta1.PullAlways, Retries: -1,
	}
	if p := tag.PullPolicy; p != nil {
		if p.TimeoutSeconds != nil {
			w.Timeout = time.Duration(*p.TimeoutSeconds) * time.Second
		}
		if p.BackoffLimit != nil {
			w.Retries = int(*p.BackoffLimit)
		}
		if p.ActiveDeadlineSeconds != nil {
			w.Deadline = time.Duration(*p.ActiveDeadlineSeconds) * time.Second
		}
	}
	if tag.CreatedAt != nil {
		w.Asked = tag.CreatedAt.Time
	}
	ref, err := imageref.Complete(image, tag.Tag)
	if err != nil {
		w.Invalid = err.Error()
	}
	w.Ref = ref.Name
	return w, pullSpec{
		ref: ref, secrets: slices.Concat(tag.PullSecrets, of.PullSecrets), sandbox: of.SandboxConfig, owners: tag.OwnerReferences,
	}
}
