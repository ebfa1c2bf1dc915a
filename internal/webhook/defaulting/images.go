// SPDX-License-Identifier: Apache-2.0

package defaulting

import (
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// ImagePullJob sets, in place, the defaults of an ImagePullJob of any version.
func ImagePullJob(obj map[string]any) {
	spec, ok := obj["spec"].(map[string]any)
	if !ok {
		return
	}
	fillText(spec, "imagePullPolicy", string(v1beta1.PullIfNotPresent))
	if completion := object(spec, "completionPolicy"); completion != nil {
		fillText(completion, "type", string(v1beta1.CompletionAlways))
	}
	pullPolicy(spec)
}

// NodeImage sets, in place, the defaults of a NodeImage of any version; now is the time, in RFC 3339.
func NodeImage(obj map[string]any, now string) {
	spec, _ := obj["spec"].(map[string]any)
	images, _ := spec["images"].(map[string]any)
	for _, value := range images {
		image, _ := value.(map[string]any)
		tags, _ := image["tags"].([]any)
		for _, value := range tags {
			if tag, ok := value.(map[string]any); ok {
				fillText(tag, "createdAt", now)
				pullPolicy(tag)
			}
		}
	}
}

// pullPolicy sets the defaults in the field pullPolicy.
func pullPolicy(m map[string]any) {
	if policy := object(m, "pullPolicy"); policy != nil {
		fill(policy, "timeoutSeconds", int64(kruise.PullTimeoutSeconds))
		fill(policy, "backoffLimit", int64(kruise.PullBackoffLimit))
	}
}
