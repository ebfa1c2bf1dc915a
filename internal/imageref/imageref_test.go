// SPDX-License-Identifier: Apache-2.0

package imageref_test

import (
	"strings"
	"testing"

	"everynode.dev/everynode/internal/imageref"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestSplit(t *testing.T) {
	for reference, want := range map[string]string{
		"nginx":                                  "nginx latest",
		"nginx:1.29":                             "nginx 1.29",
		"docker.io/library/nginx:1.29":           "nginx 1.29",
		"docker.io/nginx":                        "nginx latest",
		"index.docker.io/team/agent":             "team/agent latest",
		"library/nginx":                          "nginx latest",
		"team/agent:v2":                          "team/agent v2",
		"registry.local/agent":                   "registry.local/agent latest",
		"registry.local:5000/a/b-c__d.e:v_1":     "registry.local:5000/a/b-c__d.e v_1",
		"localhost/agent:x":                      "localhost/agent x",
		"localhost:5000/agent":                   "localhost:5000/agent latest",
		"[::1]:5000/agent:x":                     "[::1]:5000/agent x",
		"[::1]/agent":                            "[::1]/agent latest",
		"REGISTRY/agent":                         "REGISTRY/agent latest",
		"docker.io/localhost/agent":              "docker.io/localhost/agent latest",
		"agent@" + digest:                        "agent " + digest,
		"registry.local:5000/agent:v1@" + digest: "registry.local:5000/agent " + digest,
	} {
		name, tag, err := imageref.Split(reference)
		if err != nil || name+" "+tag != want {
			t.Errorf("%s: got %s %s, %v, want %s", reference, name, tag, err, want)
			continue
		}
		again, tagAgain, err := imageref.Split(imageref.Join(name, tag))
		if err != nil || again != name || tagAgain != tag {
			t.Errorf("%s: joined it is %s, which is split into %s %s, %v", reference, imageref.Join(name, tag), again, tagAgain, err)
		}
	}
}

func TestWhatIsNoReference(t *testing.T) {
	for reference, want := range map[string]string{
		"":                                  "invalid reference format",
		":v1":                               "invalid reference format",
		"registry.local/":                   "invalid reference format",
		"Nginx":                             "must be lowercase",
		"nginx:":                            "invalid reference format",
		"nginx:-x":                          "invalid reference format",
		"nginx:" + strings.Repeat("x", 129): "invalid reference format",
		"a b":                               "invalid reference format",
		"a//b":                              "invalid reference format",
		"a/-b":                              "invalid reference format",
		"a..b":                              "invalid reference format",
		"a___b":                             "invalid reference format",
		"agent@sha256:abc":                  "invalid reference format",
		"agent@":                            "invalid reference format",
		"agent@md5:" + digest[7:]:           "unsupported digest algorithm",
		strings.Repeat("0f", 32):            "cannot specify 64-byte hexadecimal strings",
		strings.Repeat("a", 256):            "must not be more than 255 characters",
	} {
		name, tag, err := imageref.Split(reference)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "is not the name of an image") {
			t.Errorf("%s: got %q %q, %v, want an error with %q", reference, name, tag, err, want)
		}
	}
}

// TestComplete: all short forms of a name are the same image for a runtime.
func TestComplete(t *testing.T) {
	for _, c := range []struct{ name, tag, full, repository string }{
		{"nginx", "1.27", "docker.io/library/nginx:1.27", "docker.io/library/nginx"},
		{"library/nginx", "1.27", "docker.io/library/nginx:1.27", "docker.io/library/nginx"},
		{"docker.io/nginx", "1.27", "docker.io/library/nginx:1.27", "docker.io/library/nginx"},
		{"index.docker.io/library/nginx", "1.27", "docker.io/library/nginx:1.27", "docker.io/library/nginx"},
		{"docker.io/library/nginx", "1.27", "docker.io/library/nginx:1.27", "docker.io/library/nginx"},
		{"nginx", "", "docker.io/library/nginx:latest", "docker.io/library/nginx"},
		{"127.0.0.1:5000/app", "v1", "127.0.0.1:5000/app:v1", "127.0.0.1:5000/app"},
		{"r.io/app", digest, "r.io/app@" + digest, "r.io/app"},
	} {
		got, err := imageref.Complete(c.name, c.tag)
		if err != nil || got.Name != c.full || got.Repository != c.repository {
			t.Errorf("%s and %s: %v, %v", c.name, c.tag, got, err)
		}
	}
	for _, bad := range []string{"r.io/Upper", "a b", ""} {
		if _, err := imageref.Complete(bad, "v1"); err == nil || !strings.Contains(err.Error(), "is not the name of an image") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// FuzzSplit: whatever can be split is the same when it is joined and split again.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"nginx", "docker.io/localhost/a", "docker.io/a.b/c:d", "library/library/x", "a:5000/b", "[::1]:5/a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, reference string) {
		name, tag, err := imageref.Split(reference)
		if err != nil {
			return
		}
		again, tagAgain, err := imageref.Split(imageref.Join(name, tag))
		if err == nil {
			_, err = imageref.Complete(name, tag)
		}
		if err != nil || again != name || tagAgain != tag {
			t.Errorf("%q is %q %q, and that is %q %q, %v", reference, name, tag, again, tagAgain, err)
		}
	})
}
