// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// Reference is the full name of an image, such as docker.io/library/nginx:1.27, and its Repository the part before tag and digest.
type Reference struct {
	Name, Repository string
}

// ParseReference puts an image and its tag together; a tag that is a digest, such as sha256:…, is one.
func ParseReference(image, tag string) (Reference, error) {
	text := image + ":" + tag
	switch {
	case tag == "":
		text = image
	case strings.Contains(tag, ":"):
		text = image + "@" + tag
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return Reference{}, fmt.Errorf("%q is not the name of an image: %w", text, err)
	}
	return Reference{Name: reference.TagNameOnly(named).String(), Repository: named.Name()}, nil
}
