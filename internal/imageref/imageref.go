// SPDX-License-Identifier: Apache-2.0

// Package imageref takes the reference of an image apart, in the way in which a NodeImage names images.
//
// Vocabulary: a reference is what stands in a container, for example registry.local:5000/team/agent:v2. Its name is the part
// before the tag, in the short form that people know (nginx, not docker.io/library/nginx), and its tag is the tag, or the
// digest where there is one.
//
// Rule: the manager and the agent of a node both split and join references here, so that they cannot disagree.
package imageref

import (
	"errors"
	"fmt"
	"strings"
)

// defaultTag is the tag of a reference without tag and digest.
const defaultTag = "latest"

// The registry and the part of it that short names leave out.
const (
	defaultRegistry = "docker.io"
	defaultLibrary  = "library/"
)

const (
	longestName = 255
	longestTag  = 128
	// An algorithm of digests has at least this many hexadecimal digits.
	shortestDigest = 32
)

// Split takes a reference apart. A digest wins over a tag beside it, for it says more.
func Split(reference string) (name, tag string, err error) {
	rest, digest, hasDigest := strings.Cut(reference, "@")
	if hasDigest && !isDigest(digest) {
		return "", "", fmt.Errorf("%q is not a digest: write sha256: and 64 hexadecimal digits", digest)
	}
	name, tag = rest, defaultTag
	if colon := strings.LastIndexByte(rest, ':'); colon > strings.LastIndexByte(rest, '/') {
		name, tag = rest[:colon], rest[colon+1:]
		if !isTag(tag) {
			return "", "", fmt.Errorf("%q is not a tag: use up to %d letters, digits, '_', '.' and '-'", tag, longestTag)
		}
	}
	if hasDigest {
		tag = digest
	}
	name, err = familiar(name)
	return name, tag, err
}

// Join is the reference that has this name and tag, or digest.
func Join(name, tag string) string {
	if strings.Contains(tag, ":") {
		return name + "@" + tag
	}
	return name + ":" + tag
}

// familiar is the short form of a name.
func familiar(name string) (string, error) {
	registry, path, ok := strings.Cut(name, "/")
	if !ok || !isRegistry(registry) {
		registry, path = "", name
	}
	if registry == "index."+defaultRegistry {
		registry = defaultRegistry
	}
	if err := checkPath(path); err != nil {
		return "", err
	}
	if registry == "" && len(path) == 64 && strings.Trim(path, "0123456789abcdef") == "" {
		return "", fmt.Errorf("%q is the ID of an image, which no registry knows: write a name", path)
	}
	if registry == defaultRegistry || registry == "" {
		if official, ok := strings.CutPrefix(path, defaultLibrary); ok && !strings.Contains(official, "/") {
			path = official
		}
		if !strings.Contains(path, "/") || registry == "" || !isRegistry(path[:strings.IndexByte(path, '/')]) {
			return path, nil
		}
	}
	if len(registry)+1+len(path) > longestName {
		return "", fmt.Errorf("the name is longer than %d characters", longestName)
	}
	return registry + "/" + path, nil
}

// isRegistry is whether the part of a name before the first slash is a registry, and not the beginning of a path.
func isRegistry(part string) bool {
	host, port, hasPort := strings.Cut(part, ":")
	if strings.HasPrefix(part, "[") {
		end := strings.IndexByte(part, ']')
		return end > 0 && strings.Trim(part[1:end], "0123456789abcdefABCDEF:") == "" && (end == len(part)-1 || part[end+1] == ':' && isNumber(part[end+2:]))
	}
	if hasPort && !isNumber(port) {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || !each(label, func(c byte) bool { return isWord(c) && c != '_' || c == '-' }) || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return hasPort || host == "localhost" || strings.Contains(host, ".") || strings.ToLower(host) != host
}

// checkPath refuses what is no path of a repository: components of lower-case letters and digits, separated inside by one '.',
// one or two '_', or any number of '-'.
func checkPath(path string) error {
	switch {
	case path == "":
		return errors.New("the name is empty")
	case len(path) > longestName:
		return fmt.Errorf("the name is longer than %d characters", longestName)
	case strings.ToLower(path) != path:
		return fmt.Errorf("the name %q has upper-case letters, which no registry allows", path)
	}
	for component := range strings.SplitSeq(path, "/") {
		if !isComponent(component) {
			return fmt.Errorf("%q is not a part of a name: use lower-case letters and digits, and between them one '.', one or two '_', or '-'", component)
		}
	}
	return nil
}

func isComponent(s string) bool {
	if s == "" || !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	separator := ""
	for i := range len(s) {
		if isAlphanumeric(s[i]) {
			separator = ""
			continue
		}
		separator += s[i : i+1]
		if separator != "." && separator != "_" && separator != "__" && strings.Trim(separator, "-") != "" {
			return false
		}
	}
	return true
}

func isTag(s string) bool {
	return s != "" && len(s) <= longestTag && isWord(s[0]) && each(s, func(c byte) bool { return isWord(c) || c == '.' || c == '-' })
}

func isDigest(s string) bool {
	algorithm, digits, ok := strings.Cut(s, ":")
	if !ok || !isComponent(strings.ReplaceAll(strings.ToLower(algorithm), "+", ".")) || algorithm == "" {
		return false
	}
	isHex := each(digits, func(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' })
	switch algorithm {
	case "sha256":
		return isHex && len(digits) == 64
	case "sha384":
		return isHex && len(digits) == 96
	case "sha512":
		return isHex && len(digits) == 128
	default:
		return isHex && len(digits) >= shortestDigest
	}
}

func isNumber(s string) bool {
	return s != "" && each(s, func(c byte) bool { return c >= '0' && c <= '9' })
}

func isAlphanumeric(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' }

func isWord(c byte) bool { return isAlphanumeric(c) || c >= 'A' && c <= 'Z' || c == '_' }

func each(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}
