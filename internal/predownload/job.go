// SPDX-License-Identifier: Apache-2.0

package predownload

import (
	"maps"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/podtemplate"
)

// What every job gets, as with OpenKruise. Where an update waits for its images, one further try is too few: a node whose registry does not answer for two
// seconds would wait for minutes. Such a job gets the default of an ImagePullJob, whose tries take at least seven seconds.
const (
	backoffLimit        = 1
	waitingBackoffLimit = 3
	keepSeconds         = 600
)

// job returns the job for one image. It follows the pods of the set, except pods of revisions that have the image. While a policy undoes the revision of the template, the wanted revision
// is another one, so labels and pull secrets are those of that.
func (in *Input) job(image podtemplate.NamedImage, with []string) *v1beta1.ImagePullJob {
	r := &in.Revisions[in.Snapshot.Set.Update]
	labels, _, _ := unstructured.NestedStringMap(r.Template, "metadata", "labels")
	annotations, _, _ := unstructured.NestedStringMap(r.Template, "metadata", "annotations")
	onJob := maps.Clone(labels)
	if onJob == nil {
		onJob = map[string]string{}
	}
	onJob[hashLabel] = r.Hash
	parallelism := intstr.FromInt32(in.parallelism())
	retries := int32(backoffLimit)
	if in.waits() {
		retries = waitingBackoffLimit
	}
	job := &v1beta1.ImagePullJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: in.Set.Namespace, Name: r.Name + "-" + image.Name, Labels: onJob},
		Spec: v1beta1.ImagePullJobSpec{
			Image:       image.Image,
			PullSecrets: in.secrets(r.Template),
			PodSelector: &v1beta1.ImagePullJobPodSelector{LabelSelector: in.selector(with)},
			Parallelism: &parallelism,
			PullPolicy: &v1beta1.PullPolicy{
				TimeoutSeconds: new(int32(in.Set.PullAhead.Timeout / time.Second)), BackoffLimit: &retries,
			},
			CompletionPolicy: v1beta1.CompletionPolicy{Type: v1beta1.CompletionAlways, TTLSecondsAfterFinished: new(int32(keepSeconds))},
			ImagePullPolicy:  v1beta1.PullIfNotPresent,
		},
	}
	if in.lasting() {
		job.Spec.CompletionPolicy = v1beta1.CompletionPolicy{Type: v1beta1.CompletionNever}
	}
	if len(labels)+len(annotations) > 0 {
		job.Spec.SandboxConfig = &v1beta1.SandboxConfig{Labels: labels, Annotations: annotations}
	}
	return job
}

// parallelism is on how many nodes at once an image is pulled. Where the set says nothing, changes in place that wait are as many as the budget
// allows, so that the wait does not slow the update down, and the registry serves no more pulls at once than kubelets would request.
func (in *Input) parallelism() int32 {
	if in.Set.PullAhead.ParallelismGiven || in.InPlace == nil {
		return in.Set.PullAhead.Parallelism
	}
	budget := in.Snapshot.Set.MaxUnavailable.Of(desired(in.Snapshot))
	return max(in.Set.PullAhead.Parallelism, int32(min(budget, math.MaxInt32)))
}

// selector matches the pods of the set that are of none of the revisions with these hashes.
func (in *Input) selector(hashes []string) metav1.LabelSelector {
	selector := metav1.LabelSelector{}
	requirements, _ := in.Set.Selector.Requirements()
	for _, r := range requirements {
		values := r.ValuesUnsorted()
		selector.MatchExpressions = append(selector.MatchExpressions, expression(r.Key(), string(r.Operator()), values))
	}
	selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: hashLabel, Operator: metav1.LabelSelectorOpNotIn, Values: hashes,
	})
	return selector
}

// expression is a requirement in the form that is written; a requirement with a single value has another operator when it is read back.
func expression(key, operator string, values []string) metav1.LabelSelectorRequirement {
	r := metav1.LabelSelectorRequirement{Key: key, Values: values}
	switch operator {
	case "=", "==", "in":
		r.Operator = metav1.LabelSelectorOpIn
	case "!=", "notin":
		r.Operator = metav1.LabelSelectorOpNotIn
	case "!":
		r.Operator = metav1.LabelSelectorOpDoesNotExist
	default:
		r.Operator = metav1.LabelSelectorOpExists
	}
	return r
}

// secrets are the names of the pull secrets of a job: those of the template, and those that its pods have for another reason.
func (in *Input) secrets(template map[string]any) []string {
	names := secrets(template)
	for _, name := range in.PullSecrets {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// secrets are the names of the pull secrets of a template.
func secrets(template map[string]any) []string {
	list, _, _ := unstructured.NestedSlice(template, "spec", "imagePullSecrets")
	var names []string
	for _, item := range list {
		secret, _ := item.(map[string]any)
		if name, _ := secret["name"].(string); name != "" {
			names = append(names, name)
		}
	}
	return names
}
