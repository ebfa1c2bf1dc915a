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
	// mostBytes is the maximum size of all images, with their tags, owners and the reports of the agent; the API server stores no object of more than 1.5 MiB.
	mostBytes = 1280 << 10
	// reservedBytes is how many of them are for images that updates wait for.
	reservedBytes = mostBytes / 8
	// usualBytes is what one more tag takes.
	usualBytes = 2 << 10
)

// Claim is a request for room in NodeImages.
type Claim struct {
	// Namespace is the namespace of the job.
	Namespace string
	// Awaited reports whether an update waits for the image.
	Awaited bool
	// bytes is what the job adds to a NodeImage; 0 for as much as usual.
	bytes int
}

// claimOf is the claim of a job. Updates wait for jobs that a daemon set owns, and that stay until it deletes them.
func claimOf(job *v1beta1.ImagePullJob) Claim {
	owner := metav1.GetControllerOfNoCopy(job)
	return Claim{
		Namespace: job.Namespace,
		Awaited:   owner != nil && owner.Kind == "DaemonSet" && job.Spec.CompletionPolicy.Type == v1beta1.CompletionNever,
	}
}

// Room reports whether a NodeImage can have the image of that name for one more job. A namespace may have at
// most as many images there as are free, so that there is always room for a namespace with few images; and
// some places are reserved for images that updates wait for. Any job can share an image that is already
// listed. The same rules apply to the bytes that all tags and owners take, whether for one image or many.
func (c Claim) Room(image *v1beta1.NodeImage, name string) bool {
	return c.roomInBytes(image) && c.roomOfImages(image, name)
}

// roomInBytes reports whether the NodeImage may grow by what the job adds.
func (c Claim) roomInBytes(image *v1beta1.NodeImage) bool {
	free, mine, more := mostBytes, 0, cmp.Or(c.bytes, usualBytes)
	if !c.Awaited {
		free -= reservedBytes
	}
	for name, of := range image.Spec.Images {
		ofImage, has := len(name)+bytesOfSandbox(of.SandboxConfig), false
		free -= ofImage
		for i := range of.Tags {
			free -= bytesOf(&of.Tags[i])
			if c.has(of.Tags[i : i+1]) {
				mine += bytesOf(&of.Tags[i])
				has = true
			}
		}
		if has {
			mine += ofImage
		}
	}
	return mine+more <= free-more // as with one more image: the namespace may have at most as many as are free then
}

// bytesOf is about how many bytes a tag takes, with what the agent reports of it: a message of up to 1,024 bytes.
func bytesOf(t *v1beta1.ImageTagSpec) int {
	n := 250 + len(t.Tag) + 250 + len(t.Tag) + 1024
	for i := range t.OwnerReferences {
		r := &t.OwnerReferences[i]
		n += 90 + len(r.APIVersion) + len(r.Kind) + len(r.Namespace) + len(r.Name) + len(r.UID) + len(r.FieldPath)
	}
	for i := range t.PullSecrets {
		n += 30 + len(t.PullSecrets[i].Namespace) + len(t.PullSecrets[i].Name)
	}
	return n
}

// bytesOfSandbox is how many bytes the configuration of a sandbox takes at most: JSON has up to six for one.
func bytesOfSandbox(s *v1beta1.SandboxConfig) int {
	n := 0
	if s != nil {
		for _, of := range []map[string]string{s.Labels, s.Annotations} {
			for key, value := range of {
				n += 10 + len(key) + 6*len(value)
			}
		}
	}
	return n
}

// roomOfImages reports whether the NodeImage has the image of that name, or can list one more.
func (c Claim) roomOfImages(image *v1beta1.NodeImage, name string) bool {
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

// has reports whether a job of the namespace owns one of the tags.
func (c Claim) has(tags []v1beta1.ImageTagSpec) bool {
	return slices.ContainsFunc(tags, func(t v1beta1.ImageTagSpec) bool {
		return slices.ContainsFunc(t.OwnerReferences, func(r corev1.ObjectReference) bool { return r.Namespace == c.Namespace })
	})
}

// crowded is how many images a NodeImage lists before unused ones are removed.
const crowded = MostImages / 4

// thin removes images of jobs that have ended, before their TTL has expired, while there are too many images:
// the oldest first. The images stay on the node; only the NodeImage no longer lists them.
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

// idle reports whether all pulls of an image are done and all their jobs have ended, and since when.
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
