// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// How long tags of a job of the type Never stay, and may take, as in OpenKruise: after a day, the agent checks the image again.
const (
	neverTTL      = 24 * 60 * 60
	neverDeadline = 30 * 60
)

// Tags of a job of the type Always stay for this many seconds, and up to as many again, longer than the job needs them.
const tagGrace = 300

// Owner is the reference by which a job owns tags.
func Owner(job *v1beta1.ImagePullJob) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v1beta1.GroupVersion().String(), Kind: kruise.KindJob,
		Namespace: job.Namespace, Name: job.Name, UID: job.UID,
	}
}

// ownedBy reports whether the job with that UID is one of the owners.
func ownedBy(tag *v1beta1.ImageTagSpec, uid types.UID) bool {
	return slices.ContainsFunc(tag.OwnerReferences, func(r corev1.ObjectReference) bool { return r.UID == uid })
}

// findTag is the index of a tag in an image, -1 if it is not there.
func findTag(image *v1beta1.ImageSpec, tag string) int {
	return slices.IndexFunc(image.Tags, func(t v1beta1.ImageTagSpec) bool { return t.Tag == tag })
}

// tagStatus is the last report of the agent about a tag, of whatever version; nil if there is none.
func tagStatus(status *v1beta1.NodeImageStatus, name, tag string) *v1beta1.ImageTagStatus {
	tags := status.ImageStatuses[name].Tags
	for i := range tags {
		if tags[i].Tag == tag {
			return &tags[i]
		}
	}
	return nil
}

// final reports whether a report is the last one about its version.
func final(s *v1beta1.ImageTagStatus) bool {
	return s.Phase == v1beta1.ImagePhaseSucceeded || s.Phase == v1beta1.ImagePhaseFailed
}

// wanted is the tag as the job wants it on one node.
func (d *decision) wanted(node string) v1beta1.ImageTagSpec {
	spec := &d.in.Job.Spec
	policy := &v1beta1.ImageTagPullPolicy{TimeoutSeconds: new(int32(kruise.PullTimeoutSeconds)), BackoffLimit: new(int32(kruise.PullBackoffLimit))}
	if p := spec.PullPolicy; p != nil {
		policy.TimeoutSeconds = valueOr(p.TimeoutSeconds, *policy.TimeoutSeconds)
		policy.BackoffLimit = valueOr(p.BackoffLimit, *policy.BackoffLimit)
	}
	spread := int32(spreadOf(string(d.in.Job.UID) + node)) // not all nodes at the same moment
	if spec.CompletionPolicy.Type == v1beta1.CompletionNever {
		policy.TTLSecondsAfterFinished = new(neverTTL - tagGrace + spread)
		policy.ActiveDeadlineSeconds = new(max(neverDeadline, int64(*policy.TimeoutSeconds))) // one try at least has its time
	} else {
		policy.TTLSecondsAfterFinished = new(alwaysTTL(spec, policy) + tagGrace + spread)
		policy.ActiveDeadlineSeconds = copyOf(spec.CompletionPolicy.ActiveDeadlineSeconds)
	}
	now := metav1.NewTime(d.in.Now)
	return v1beta1.ImageTagSpec{
		Tag: d.tag, CreatedAt: &now, PullPolicy: policy, OwnerReferences: []corev1.ObjectReference{Owner(d.in.Job)},
		ImagePullPolicy: spec.ImagePullPolicy, PullSecrets: slices.Clone(d.in.Secrets),
	}
}

// alwaysTTL is how long the job itself may need a tag that is done.
func alwaysTTL(spec *v1beta1.ImagePullJobSpec, policy *v1beta1.ImageTagPullPolicy) int32 {
	switch c := spec.CompletionPolicy; {
	case c.TTLSecondsAfterFinished != nil:
		return clamp(int64(*c.TTLSecondsAfterFinished))
	case c.ActiveDeadlineSeconds != nil:
		return clamp(*c.ActiveDeadlineSeconds)
	default:
		return clamp(int64(*policy.TimeoutSeconds) * int64(*policy.BackoffLimit))
	}
}

// clamp limits a number of seconds to ten years, so that sums do not overflow.
func clamp(seconds int64) int32 { return int32(min(max(seconds, 0), 10*365*24*60*60)) }

func valueOr(p *int32, otherwise int32) *int32 {
	if p != nil {
		otherwise = *p
	}
	return &otherwise
}

func copyOf(p *int64) *int64 {
	if p == nil {
		return nil
	}
	return new(*p)
}

// spreadOf is a number from 0 to tagGrace, always the same for the same text.
func spreadOf(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return h.Sum32() % tagGrace
}

// addOwner makes the job one of the owners of its tag. A pull in progress is joined as it is; a completed one begins again with a new version, because
// the image may have gone since. So does one with a less strict pull policy.
func (d *decision) addOwner(t *draft) {
	want := d.wanted(t.from.Name)
	image := t.image(d.name)
	if d.in.Job.Spec.SandboxConfig != nil {
		image.SandboxConfig = d.in.Job.Spec.SandboxConfig.DeepCopy()
	}
	last := tagStatus(&t.from.Status, d.name, d.tag)
	i := findTag(&image, d.tag)
	if i < 0 {
		if last != nil {
			want.Version = nextVersion(last.Version)
		}
		image.Tags = append(image.Tags, want)
		t.put(d.name, image)
		return
	}
	tag := &image.Tags[i]
	stricter := want.ImagePullPolicy == v1beta1.PullAlways && tag.ImagePullPolicy != v1beta1.PullAlways
	if stricter || last != nil && last.Version == tag.Version && final(last) {
		keepOutcome(tag, last)
		tag.Version = nextVersion(tag.Version)
		tag.CreatedAt = want.CreatedAt
		tag.ImagePullPolicy = want.ImagePullPolicy
	}
	alone := len(tag.OwnerReferences) == 0
	tag.OwnerReferences = append(tag.OwnerReferences, want.OwnerReferences...)
	share(tag, &want, alone)
	t.put(d.name, image)
}

// nextVersion is the version that comes after v. Versions that a node reports are not trusted: the maximum is not exceeded.
func nextVersion(v int64) int64 { return max(v, 0, min(v, math.MaxInt64-1)+1) }

// keepOutcome records the result of a tag for its owners, before it begins again for another one. The record is in the field path of the reference,
// which has no other use.
func keepOutcome(tag *v1beta1.ImageTagSpec, last *v1beta1.ImageTagStatus) {
	if last == nil || last.Version != tag.Version || !final(last) {
		return
	}
	for i := range tag.OwnerReferences {
		if r := &tag.OwnerReferences[i]; r.FieldPath != string(v1beta1.ImagePhaseSucceeded) {
			r.FieldPath = string(last.Phase)
		}
	}
}

// outcome is how a tag has ended for the job with that UID, which owns it; empty if it has not. The outcome
// of one job is kept when another job orders the tag again, and a later successful pull counts for all jobs.
func outcome(tag *v1beta1.ImageTagSpec, last *v1beta1.ImageTagStatus, job types.UID) v1beta1.ImagePullPhase {
	kept := v1beta1.ImagePullPhase("")
	for i := range tag.OwnerReferences {
		if r := &tag.OwnerReferences[i]; r.UID == job {
			kept = v1beta1.ImagePullPhase(r.FieldPath)
		}
	}
	ended := last != nil && last.Version == tag.Version && final(last)
	if kept == v1beta1.ImagePhaseSucceeded || !ended {
		return kept
	}
	return last.Phase
}

// share merges the options of a further owner into a tag. Of two limits, the larger one applies, so that no owner gets less than it requested.
func share(tag, want *v1beta1.ImageTagSpec, alone bool) {
	if alone || tag.PullPolicy == nil {
		tag.PullPolicy, tag.PullSecrets = want.PullPolicy, want.PullSecrets
		return
	}
	have, more := tag.PullPolicy, want.PullPolicy
	have.TimeoutSeconds = larger(have.TimeoutSeconds, more.TimeoutSeconds)
	have.BackoffLimit = larger(have.BackoffLimit, more.BackoffLimit)
	have.TTLSecondsAfterFinished = larger(have.TTLSecondsAfterFinished, more.TTLSecondsAfterFinished)
	if have.ActiveDeadlineSeconds == nil || more.ActiveDeadlineSeconds == nil {
		have.ActiveDeadlineSeconds = nil
	} else {
		have.ActiveDeadlineSeconds = new(max(*have.ActiveDeadlineSeconds, *more.ActiveDeadlineSeconds))
	}
	for _, secret := range want.PullSecrets {
		if !slices.Contains(tag.PullSecrets, secret) {
			tag.PullSecrets = append(tag.PullSecrets, secret)
		}
	}
}

// larger is the larger of two limits, of which nil is none.
func larger(a, b *int32) *int32 {
	if a == nil || b == nil {
		return nil
	}
	return new(max(*a, *b))
}

// removeOwner removes the job from the owners of one tag.
func removeOwner(t *draft, name, tag string, job types.UID) {
	image := t.image(name)
	i := findTag(&image, tag)
	if i < 0 {
		return
	}
	owners := slices.DeleteFunc(image.Tags[i].OwnerReferences, func(r corev1.ObjectReference) bool { return r.UID == job })
	if len(owners) == 0 {
		image.Tags = slices.Delete(image.Tags, i, i+1)
	} else {
		image.Tags[i].OwnerReferences = owners
	}
	t.put(name, image)
}

// seconds is a number of seconds as duration.
func seconds[N int32 | int64](n N) time.Duration { return time.Duration(n) * time.Second }

// Owns reports whether the job with that UID is an owner of a tag in a NodeImage.
func Owns(image *v1beta1.NodeImage, job types.UID) bool {
	for _, of := range image.Spec.Images {
		for i := range of.Tags {
			if ownedBy(&of.Tags[i], job) {
				return true
			}
		}
	}
	return false
}

// Owners are the jobs that own a tag in a NodeImage.
func Owners(image *v1beta1.NodeImage) map[types.NamespacedName]bool {
	jobs := map[types.NamespacedName]bool{}
	for _, of := range image.Spec.Images {
		for i := range of.Tags {
			for j := range of.Tags[i].OwnerReferences {
				if r := &of.Tags[i].OwnerReferences[j]; IsJob(r) {
					jobs[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}] = true
				}
			}
		}
	}
	return jobs
}

// ImageState is how far an image is on a node.
type ImageState struct {
	// There reports whether the node has it.
	There bool
	// Since is when the given job ordered the image, or when the pull in progress was ordered if that was later; zero if the job has not ordered it.
	Since time.Time
}

// ImageStateOf returns the state of the image with that name and tag in a NodeImage, as ordered by the job with that UID. The NodeImage may be nil.
func ImageStateOf(image *v1beta1.NodeImage, name, tag string, job types.UID) ImageState {
	if image == nil {
		return ImageState{}
	}
	of := image.Spec.Images[name]
	i := findTag(&of, tag)
	if i < 0 {
		return ImageState{}
	}
	want, s := &of.Tags[i], ImageState{}
	s.There = outcome(want, tagStatus(&image.Status, name, tag), job) == v1beta1.ImagePhaseSucceeded
	if want.CreatedAt != nil && ownedBy(want, job) {
		s.Since = want.CreatedAt.Time
	}
	return s
}

// SameOutcome reports whether two states of one NodeImage have the same images and results: they differ in the progress of pulls at most.
func SameOutcome(a, b *v1beta1.NodeImage) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && slices.Equal(finalTags(&a.Status), finalTags(&b.Status))
}

// finalTags are the completed tags with their results.
func finalTags(status *v1beta1.NodeImageStatus) []string {
	var all []string
	for name, image := range status.ImageStatuses {
		for i := range image.Tags {
			if t := &image.Tags[i]; final(t) {
				all = append(all, fmt.Sprint(name, " ", t.Tag, " ", t.Version, " ", t.Phase))
			}
		}
	}
	slices.Sort(all)
	return all
}
