// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// How the images of one NodeImage are shared out.
const (
	// MostImages is how many images one NodeImage can have.
	MostImages = 256
	// reserved is how many of them are for images that updates wait for.
	reserved = 32
)

// Claim is who asks for room in NodeImages.
type Claim struct {
	// Namespace is that of the job.
	Namespace string
	// Awaited is whether an update waits for the image.
	Awaited bool
}

// claimOf is the claim of a job. Updates wait for jobs that a daemon set owns, and that stay until it deletes them.
func claimOf(job *v1beta1.ImagePullJob) Claim {
	owner := metav1.GetControllerOfNoCopy(job)
	return Claim{
		Namespace: job.Namespace,
		Awaited:   owner != nil && owner.Kind == "DaemonSet" && job.Spec.CompletionPolicy.Type == v1beta1.CompletionNever,
	}
}

// Room is whether a NodeImage can have the image of that name. What is there already can be had by all. For others a namespace has no more
// images there than are free, so that there is always room for a namespace that has few; and some are left free for images that updates
// wait for.
func (c Claim) Room(image *v1beta1.NodeImage, name string) bool {
	images := image.Spec.Images
	if _, has := images[name]; has {
		return true
	}
	free := MostImages - len(images)
	if !c.Awaited {
		free -= reserved
	}
	if len(images) < free || free <= 0 {
		return free > 0
	}
	mine := 0
	for _, of := range images {
		if c.has(of.Tags) {
			mine++
		}
	}
	return mine < free
}

// has is whether a job of the namespace owns one of the tags.
func (c Claim) has(tags []v1beta1.ImageTagSpec) bool {
	return slices.ContainsFunc(tags, func(t v1beta1.ImageTagSpec) bool {
		return slices.ContainsFunc(t.OwnerReferences, func(r corev1.ObjectReference) bool { return r.Namespace == c.Namespace })
	})
}

// crowded is how many images a NodeImage lists before unused ones are removed.
const crowded = MostImages / 4

// thin removes images of jobs that have ended, before their TTL has expired, while there are too many images: those first that were done first.
// They stay on the node; only the NodeImage lists them no more.
func (s *Sweep) thin(t *draft) {
	left := len(s.Image.Spec.Images)
	for _, changed := range t.edit.Images {
		if changed == nil {
			left--
		}
	}
	if left <= crowded {
		return
	}
	type idle struct {
		name  string
		since time.Time
	}
	var all []idle
	for name := range s.Image.Spec.Images {
		if since, ok := s.idle(name); ok && t.edit.Images[name] == nil && !t.removes(name) {
			all = append(all, idle{name, since})
		}
	}
	slices.SortFunc(all, func(a, b idle) int { return cmp.Or(a.since.Compare(b.since), strings.Compare(a.name, b.name)) })
	for _, image := range all[:min(len(all), left-crowded)] {
		t.put(image.name, v1beta1.ImageSpec{})
	}
}

// idle is whether all that was to be done about an image is done, for jobs that have all ended, and since when.
func (s *Sweep) idle(name string) (since time.Time, ok bool) {
	tags := s.Image.Spec.Images[name].Tags
	for i := range tags {
		report := tagStatus(&s.Image.Status, name, tags[i].Tag)
		if report == nil || report.Version != tags[i].Version || !final(report) || len(tags[i].OwnerReferences) == 0 {
			return since, false
		}
		for k := range tags[i].OwnerReferences {
			if s.Owner(&tags[i].OwnerReferences[k]) != OwnerEnded {
				return since, false
			}
		}
		if report.CompletionTime != nil && report.CompletionTime.After(since) {
			since = report.CompletionTime.Time
		}
	}
	return since, len(tags) > 0
}
