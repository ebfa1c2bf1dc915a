// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/imageref"
)

// patience is how long the agent of a node may report nothing, and mostBackoff its maximum wait between two attempts.
const (
	patience    = 10 * time.Minute
	mostBackoff = 30 * time.Second
	longest     = 24 * time.Hour // after which a node has failed whatever it says
)

// OwnerState is the state of an owner of a tag.
type OwnerState uint8

// The states of an owner.
const (
	OwnerGone  OwnerState = iota // it does not exist any more
	OwnerDone                    // its tags expire after their TTL
	OwnerEnded                   // it has ended, and needs the tag no more
	OwnerBusy                    // it still needs the tag, whatever the tag's own time says
	OwnerElse                    // it is no ImagePullJob: that owner removes the tag itself
)

// StateOf is the state of a job as owner. A job of the type Never releases a tag after its TTL and joins it
// again, so that an image that was removed from the node in the meantime is pulled again.
func StateOf(job *v1beta1.ImagePullJob) OwnerState {
	switch {
	case job.DeletionTimestamp != nil:
		return OwnerGone
	case job.Status.CompletionTime != nil:
		return OwnerEnded
	case job.Spec.CompletionPolicy.Type == v1beta1.CompletionNever:
		return OwnerDone
	default:
		return OwnerBusy
	}
}

// IsJob reports whether a reference names an ImagePullJob, of whatever version.
func IsJob(r *corev1.ObjectReference) bool {
	return r.Kind == kruise.KindJob && r.GroupVersionKind().Group == kruise.Group
}

// Sweep removes expired images from one NodeImage.
type Sweep struct {
	Now   time.Time
	Image *v1beta1.NodeImage
	// Ready reports whether the node is ready, and Since when that last changed.
	Ready bool
	Since time.Time
	// Owner is the state of the owner of a tag.
	Owner func(*corev1.ObjectReference) OwnerState
}

// Swept is what is to be done about one NodeImage.
type Swept struct {
	// Edit removes owners and tags; nil if there is nothing to remove.
	Edit *Edit
	// Status marks what the node will never report; nil if there is nothing to mark. Events are about the tags that it marks.
	Status *v1beta1.NodeImageStatus
	Events []Event
	Wake   time.Time
}

// Run decides. What is removed from the specification is marked no more.
func (s *Sweep) Run() Swept {
	out := Swept{}
	t := newDraft(s.Image)
	for _, name := range slices.Sorted(maps.Keys(s.Image.Spec.Images)) {
		tags := s.Image.Spec.Images[name].Tags
		for i := range tags {
			if s.drop(t, &out, name, &tags[i]) {
				continue
			}
			s.redate(t, name, &tags[i])
			s.mark(&out, name, &tags[i])
		}
	}
	s.thin(t)
	if t.changed() {
		out.Edit = &t.edit
	}
	if out.Status != nil {
		recount(out.Status, &s.Image.Spec)
	}
	return out
}

// drop removes owners that are gone, and reports whether the tag is removed with them.
func (s *Sweep) drop(t *draft, out *Swept, name string, tag *v1beta1.ImageTagSpec) bool {
	busy, left := false, len(tag.OwnerReferences)
	for i := range tag.OwnerReferences {
		owner := &tag.OwnerReferences[i]
		switch s.Owner(owner) {
		case OwnerGone:
			removeOwner(t, name, tag.Tag, owner.UID)
			left--
		case OwnerBusy:
			busy = true
		case OwnerDone, OwnerEnded, OwnerElse:
		}
	}
	if left == 0 && len(tag.OwnerReferences) > 0 {
		return true
	}
	report := tagStatus(&s.Image.Status, name, tag.Tag)
	if busy || tag.PullPolicy == nil || tag.PullPolicy.TTLSecondsAfterFinished == nil ||
		report == nil || report.Version != tag.Version || report.CompletionTime == nil {
		return false
	}
	end := report.CompletionTime.Add(seconds(*tag.PullPolicy.TTLSecondsAfterFinished))
	if s.Now.Before(end) {
		out.Wake = soonest(out.Wake, end)
		return false
	}
	image := t.image(name)
	if i := findTag(&image, tag.Tag); i >= 0 {
		image.Tags = slices.Delete(image.Tags, i, i+1)
		t.put(name, image)
	}
	return true
}

// redate corrects the time of an order that a manager with a fast clock has written: all deadlines count from it.
func (s *Sweep) redate(t *draft, name string, tag *v1beta1.ImageTagSpec) {
	if tag.CreatedAt == nil || !tag.CreatedAt.After(s.Now.Add(patience)) {
		return
	}
	now := metav1.NewTime(s.Now.Truncate(time.Second))
	image := t.image(name)
	if i := findTag(&image, tag.Tag); i >= 0 {
		image.Tags[i].CreatedAt = &now
		t.put(name, image)
	}
}

// mark fails a tag that the node will not report on any more.
func (s *Sweep) mark(out *Swept, name string, tag *v1beta1.ImageTagSpec) {
	report := tagStatus(&s.Image.Status, name, tag.Tag)
	if tag.CreatedAt == nil || report != nil && report.Version == tag.Version && final(report) {
		return
	}
	why, end := s.limit(tag, report)
	if end.IsZero() {
		return
	}
	if s.Now.Before(end) {
		out.Wake = soonest(out.Wake, end)
		return
	}
	if out.Status == nil {
		out.Status = s.Image.Status.DeepCopy()
	}
	now := metav1.NewTime(s.Now.Truncate(time.Second))
	failed := v1beta1.ImageTagStatus{Tag: tag.Tag, Phase: v1beta1.ImagePhaseFailed, Version: tag.Version, CompletionTime: &now, Message: why}
	if report != nil && report.Version == tag.Version {
		failed.StartTime, failed.Progress = report.StartTime, report.Progress
	}
	setTag(out.Status, name, failed)
	out.Events = append(out.Events, Event{
		Warning: true, Reason: ReasonPullImageFailed,
		Message: fmt.Sprintf(messagePullFailed, imageref.Join(name, tag.Tag), s.Image.Name, why),
	})
}

// limit is when a tag that is not done has failed, and why; zero for never.
func (s *Sweep) limit(tag *v1beta1.ImageTagSpec, report *v1beta1.ImageTagStatus) (why string, end time.Time) {
	if report == nil || report.Version != tag.Version {
		return messageSilent, tag.CreatedAt.Add(patience)
	}
	policy := tag.PullPolicy
	if policy == nil {
		policy = &v1beta1.ImageTagPullPolicy{}
	}
	if policy.ActiveDeadlineSeconds != nil {
		// The agent sees to it itself, unless it is gone.
		why, end = messageTagDeadline, tag.CreatedAt.Add(seconds(*policy.ActiveDeadlineSeconds)+patience)
	}
	if report.Phase == v1beta1.ImagePhaseWaiting && !s.pulling() {
		// Nothing else keeps the agent from beginning this pull.
		began := s.alive(tag.CreatedAt.Time)
		if last := began.Add(seconds(*valueOr(policy.TimeoutSeconds, kruise.PullTimeoutSeconds)) + patience); end.IsZero() || last.Before(end) {
			why, end = messageNoAnswer, last
		}
	}
	if report.Phase == v1beta1.ImagePhasePulling {
		began := s.trustedTime(report.StartTime, tag.CreatedAt.Time)
		attempt := seconds(*valueOr(policy.TimeoutSeconds, kruise.PullTimeoutSeconds)) + mostBackoff
		attempts := 1 + int64(*valueOr(policy.BackoffLimit, kruise.PullBackoffLimit))
		if last := began.Add(time.Duration(min(attempts, 1000))*attempt + patience); end.IsZero() || last.Before(end) {
			why, end = messageSilent, last
		}
	}
	if last := tag.CreatedAt.Add(longest); end.IsZero() || last.Before(end) {
		why, end = messageSilent, last
	}
	if !s.Ready && !s.Since.IsZero() {
		begun := tag.CreatedAt.Time
		if s.Since.After(begun) {
			begun = s.Since
		}
		if silent := begun.Add(patience); end.IsZero() || silent.Before(end) {
			why, end = messageSilent, silent
		}
	}
	return why, end
}

// trustedTime returns a time that a node has reported, if it lies between the order and now, with a tolerance
// for differences between clocks; otherwise it returns the time of the order. A node must not keep its place
// in a job by reporting a time in the future.
func (s *Sweep) trustedTime(t *metav1.Time, ordered time.Time) time.Time {
	if t == nil || t.Time.Before(ordered) || t.Time.After(s.Now.Add(mostBackoff)) {
		return ordered
	}
	return t.Time
}

// pulling reports whether the node reports the pull of a wanted image.
func (s *Sweep) pulling() bool {
	for name, image := range s.Image.Spec.Images {
		for i := range image.Tags {
			report := tagStatus(&s.Image.Status, name, image.Tags[i].Tag)
			if report != nil && report.Version == image.Tags[i].Version && report.Phase == v1beta1.ImagePhasePulling && report.CompletionTime == nil {
				return true
			}
		}
	}
	return false
}

// alive is when the agent of the node last began or ended a pull, if that was after since. Failures that the manager has written do not count.
func (s *Sweep) alive(since time.Time) time.Time {
	for _, image := range s.Image.Status.ImageStatuses {
		for i := range image.Tags {
			t := &image.Tags[i]
			if began := s.trustedTime(t.StartTime, since); began.After(since) {
				since = began
			}
			if t.CompletionTime != nil && t.CompletionTime.After(since) && !t.CompletionTime.After(s.Now) && !slices.Contains([]string{messageSilent, messageNoAnswer, messageTagDeadline}, t.Message) {
				since = t.CompletionTime.Time
			}
		}
	}
	return since
}

func setTag(status *v1beta1.NodeImageStatus, name string, tag v1beta1.ImageTagStatus) {
	if status.ImageStatuses == nil {
		status.ImageStatuses = map[string]v1beta1.ImageStatus{}
	}
	image := status.ImageStatuses[name]
	if i := slices.IndexFunc(image.Tags, func(t v1beta1.ImageTagStatus) bool { return t.Tag == tag.Tag }); i >= 0 {
		image.Tags[i] = tag
	} else {
		image.Tags = append(image.Tags, tag)
	}
	status.ImageStatuses[name] = image
}

// recount computes the numbers of a status from its tags that are still wanted.
func recount(status *v1beta1.NodeImageStatus, spec *v1beta1.NodeImageSpec) {
	status.Desired, status.Succeeded, status.Failed, status.Pulling, status.Waiting = 0, 0, 0, 0, 0
	for name, image := range spec.Images {
		for i := range image.Tags {
			status.Desired++
			report := tagStatus(status, name, image.Tags[i].Tag)
			switch {
			case report == nil || report.Version != image.Tags[i].Version || report.Phase == v1beta1.ImagePhaseWaiting:
				status.Waiting++
			case report.Phase == v1beta1.ImagePhaseSucceeded:
				status.Succeeded++
			case report.Phase == v1beta1.ImagePhaseFailed:
				status.Failed++
			default:
				status.Pulling++
			}
		}
	}
}

// StatusPatch is a status as a JSON merge patch for the NodeImage that it was made from, which is refused if that has changed.
func StatusPatch(image *v1beta1.NodeImage, status *v1beta1.NodeImageStatus) ([]byte, error) {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": image.ResourceVersion}, "status": status})
	if err != nil {
		return nil, fmt.Errorf("encoding the status of the node image %s: %w", image.Name, err)
	}
	return data, nil
}
