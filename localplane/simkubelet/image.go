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

// digestName is the suffix of a reference that defines its content: app:v1-digest-a and app:v2-digest-a are the same
// image.
var digestName = regexp.MustCompile(`-digest-[A-Za-z0-9_.-]+$`)

// missingOn is the suffix of a reference with the node that cannot pull it.
var missingOn = regexp.MustCompile(`-missing-on-([a-z0-9.-]+)$`)

// Pullable reports whether a node can pull the image.
func Pullable(ref, node string) bool {
	if at := missingOn.FindStringSubmatch(ref); len(at) == 2 && at[1] == node {
		return false
	}
	return !strings.Contains(ref, "non-existent") && !strings.Contains(ref, "broken")
}

// Crashes reports whether a container of this image exits soon after its start.
func Crashes(ref string) bool { return strings.Contains(ref, "crash") }

// ImageID returns the image ID in the runtime: the repository and a digest that depends only on the reference.
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

// shortest returns the shortest name of an image: nginx:latest for docker.io/library/nginx:latest. An invalid reference
// is returned unchanged.
func shortest(ref string) string {
	if name, tag, err := imageref.Split(ref); err == nil {
		return imageref.Join(name, tag)
	}
	return ref
}

// imageSize returns a plausible size, which is constant for an image.
func imageSize(ref string) int64 {
	sum := sha256.Sum256([]byte(ImageID(ref)))
	const smallest, step = 8 << 20, 1 << 20
	return smallest + int64(sum[0])*step
}

// ImageStore is the images of one node. It is not safe for concurrent use.
type ImageStore struct {
	// at has by the shortest name when each image is present: a future time means that it is being pulled.
	at map[string]time.Time
}

// NewImageStore returns a store with these images.
func NewImageStore(refs ...string) *ImageStore {
	s := &ImageStore{at: map[string]time.Time{}}
	for _, ref := range refs {
		s.at[shortest(ref)] = time.Time{}
	}
	return s
}

// Has reports whether the image is present.
func (s *ImageStore) Has(ref string, now time.Time) bool {
	at, ok := s.at[shortest(ref)]
	return ok && !at.After(now)
}

// Pull ensures that the image is present after at most d, and returns when. It joins a pull in progress.
func (s *ImageStore) Pull(ref string, now time.Time, d time.Duration) time.Time {
	ref = shortest(ref)
	if at, ok := s.at[ref]; ok {
		return at
	}
	s.at[ref] = now.Add(d)
	return s.at[ref]
}

// List returns the present images, by name.
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
