// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"everynode.dev/everynode/internal/imageref"
)

// digestName is the end of a reference that names its content: app:v1-digest-a and app:v2-digest-a are the same image.
var digestName = regexp.MustCompile(`-digest-[A-Za-z0-9_.-]+$`)

// missingOn is the end of a reference that names the one node that cannot pull it.
var missingOn = regexp.MustCompile(`-missing-on-([a-z0-9.-]+)$`)

// Pullable tells whether a node can pull the image.
func Pullable(ref, node string) bool {
	if at := missingOn.FindStringSubmatch(ref); len(at) == 2 && at[1] == node {
		return false
	}
	return !strings.Contains(ref, "non-existent") && !strings.Contains(ref, "broken")
}

// Crashes tells whether a container of this image exits soon after its start.
func Crashes(ref string) bool { return strings.Contains(ref, "crash") }

// ImageID is what the runtime calls the image: its repository and a digest that depends on nothing but the reference.
func ImageID(ref string) string {
	ref = shortest(ref)
	repo, digest, found := strings.Cut(ref, "@")
	if found {
		return repo + "@" + digest
	}
	if slash, colon := strings.LastIndexByte(ref, '/'), strings.LastIndexByte(ref, ':'); colon > slash {
		repo = ref[:colon]
	}
	content := ref
	if name := digestName.FindString(ref); name != "" {
		content = repo + name
	}
	return fmt.Sprintf("%s@sha256:%x", repo, sha256.Sum256([]byte(content)))
}

// shortest is the one name of an image that has several: nginx:latest for docker.io/library/nginx:latest. What is no reference has but one.
func shortest(ref string) string {
	if name, tag, err := imageref.Split(ref); err == nil {
		return imageref.Join(name, tag)
	}
	return ref
}

// imageSize is a believable number of bytes, the same for the same image.
func imageSize(ref string) int64 {
	sum := sha256.Sum256([]byte(ImageID(ref)))
	const smallest, step = 8 << 20, 1 << 20
	return smallest + int64(sum[0])*step
}

// ImageStore is the images of one node. It is not safe for concurrent use.
type ImageStore struct {
	// at says by the shortest name when each image is there: a time to come means that it is being pulled.
	at map[string]time.Time
}

// NewImageStore returns a store that holds these images.
func NewImageStore(refs ...string) *ImageStore {
	s := &ImageStore{at: map[string]time.Time{}}
	for _, ref := range refs {
		s.at[shortest(ref)] = time.Time{}
	}
	return s
}

// Has tells whether the image is there.
func (s *ImageStore) Has(ref string, now time.Time) bool {
	at, ok := s.at[shortest(ref)]
	return ok && !at.After(now)
}

// Pull makes sure that the image is there after at most d, and returns when. A pull under way is joined.
func (s *ImageStore) Pull(ref string, now time.Time, d time.Duration) time.Time {
	ref = shortest(ref)
	if at, ok := s.at[ref]; ok {
		return at
	}
	s.at[ref] = now.Add(d)
	return s.at[ref]
}

// List is the images that are there, by name.
func (s *ImageStore) List(now time.Time) []string {
	var refs []string
	for ref := range s.at {
		if s.Has(ref, now) {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	return refs
}
