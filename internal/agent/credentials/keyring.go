// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"cmp"
	"net"
	"path"
	"slices"
	"strings"
)

// Credential is a credential for a registry: a name and a password, or a token.
type Credential struct {
	Username, Password string
	// IdentityToken is exchanged for an access token, RegistryToken is one.
	IdentityToken, RegistryToken string
}

// Keyring has credentials by pattern. The zero value is empty. The keychain of go-containerregistry's authn/kubernetes
// cannot be used: it returns the first credential only, while the kubelet and the agent try all of them, and it links
// the typed clients of all of Kubernetes and Docker's CLI.
type Keyring struct {
	entries []entry
}

type entry struct {
	pattern    string
	credential Credential
}

// The default registry of images, and the usual pattern of its credentials.
const (
	defaultRegistry        = "docker.io"
	defaultRegistryPattern = "index.docker.io"
)

// Add adds a credential for a pattern, after the existing ones.
func (k *Keyring) Add(pattern string, c Credential) {
	k.entries = append(k.entries, entry{normalPattern(pattern), c})
}

// normalPattern removes the scheme and the version of the registry API, which a login configuration may contain.
func normalPattern(pattern string) string {
	for _, scheme := range []string{"https://", "http://"} {
		pattern = strings.TrimPrefix(pattern, scheme)
	}
	host, rest, _ := strings.Cut(pattern, "/")
	for _, version := range []string{"v1", "v2"} {
		if rest == version || strings.HasPrefix(rest, version+"/") {
			rest = strings.TrimPrefix(rest[len(version):], "/")
			break
		}
	}
	return strings.TrimSuffix(host+"/"+rest, "/")
}

// Lookup returns the credentials for a repository such as registry.example.com/team/app, those of the most specific
// pattern first. The repository has no tag and no digest.
func (k *Keyring) Lookup(repository string) []Credential {
	found := k.matching(func(pattern string) bool { return Matches(pattern, repository) })
	if host, _, _ := strings.Cut(repository, "/"); len(found) == 0 && host == defaultRegistry {
		found = k.matching(func(pattern string) bool { return pattern == defaultRegistryPattern })
	}
	return found
}

func (k *Keyring) matching(match func(pattern string) bool) []Credential {
	entries := []entry{}
	for _, e := range k.entries {
		if match(e.pattern) {
			entries = append(entries, e)
		}
	}
	// In reverse alphabetical order, a longer path sorts before a shorter one, and a name before a wildcard.
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(b.pattern, a.pattern) })
	found := []Credential{}
	for _, e := range entries {
		if !slices.Contains(found, e.credential) {
			found = append(found, e.credential)
		}
	}
	return found
}

// Matches reports whether a repository matches a pattern: the ports are equal, the hosts have the same number of parts
// and each part matches, and the path of the pattern is a prefix of that of the repository.
func Matches(pattern, repository string) bool {
	patternHost, patternPath, _ := strings.Cut(pattern, "/")
	host, repositoryPath, _ := strings.Cut(repository, "/")
	patternName, patternPort := splitPort(patternHost)
	name, port := splitPort(host)
	if patternPort != port || !strings.HasPrefix(repositoryPath, patternPath) {
		return false
	}
	return slices.EqualFunc(strings.Split(patternName, "."), strings.Split(name, "."), func(glob, part string) bool {
		ok, err := path.Match(glob, part)
		return ok && err == nil
	})
}

func splitPort(host string) (name, port string) {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return host, ""
	}
	return name, port
}
