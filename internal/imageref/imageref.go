// SPDX-License-Identifier: Apache-2.0

// Package imageref takes the reference of an image apart, in the way in which a NodeImage names images, and puts it together again.
//
// Vocabulary: a reference is the image of a container, for example registry.local:5000/team/agent:v2. Its name is the part
// before the tag, in the short form that people know (nginx, not docker.io/library/nginx), and its tag is the tag, or the
// digest where there is one. A container runtime and a registry get the full form.
//
// Rule: the manager and the agent of a node both split and join references here, so that they cannot disagree. What a
// reference is, the library of the container runtimes says.
package imageref

import (
	_ "crypto/sha256" // without these a digest is not known to be one
	_ "crypto/sha512"
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// defaultTag is the tag of a reference without tag and digest.
const defaultTag = "latest"

// Split takes a reference apart. A digest takes precedence over a tag.
func Split(text string) (name, tag string, err error) {
	named, err := parse(text)
	if err != nil {
		return "", "", err
	}
	tag = defaultTag
	if digested, ok := named.(reference.Digested); ok {
		tag = digested.Digest().String()
	} else if tagged, ok := named.(reference.Tagged); ok {
		tag = tagged.Tag()
	}
	// Some names mean another image when they are short: docker.io/localhost/agent is not localhost/agent.
	if name = reference.FamiliarName(named); !sameName(name, named) {
		name = named.Name()
	}
	return name, tag, nil
}

// Join is the reference that has this name and tag, or digest.
func Join(name, tag string) string {
	switch {
	case tag == "":
		return name
	case strings.Contains(tag, ":"):
		return name + "@" + tag
	}
	return name + ":" + tag
}

// Full is a reference in its full form, such as docker.io/library/nginx:1.27, and its Repository the part before tag and digest.
type Full struct {
	Name, Repository string
}

// Complete is the full form of a name with a tag, or a digest.
func Complete(name, tag string) (Full, error) {
	named, err := parse(Join(name, tag))
	if err != nil {
		return Full{}, err
	}
	return Full{Name: reference.TagNameOnly(named).String(), Repository: named.Name()}, nil
}

func parse(text string) (reference.Named, error) {
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not the name of an image: %w (write for example registry.example.com/team/agent:v1)", text, err)
	}
	return named, nil
}

func sameName(name string, named reference.Named) bool {
	again, err := reference.ParseNormalizedNamed(name)
	return err == nil && again.Name() == named.Name()
}
