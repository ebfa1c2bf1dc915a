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
		"":                                  "the name is empty",
		":v1":                               "the name is empty",
		"registry.local/":                   "the name is empty",
		"Nginx":                             "has upper-case letters",
		"nginx:":                            "is not a tag",
		"nginx:-x":                          "is not a tag",
		"nginx:" + strings.Repeat("x", 129): "is not a tag",
		"a b":                               "is not a part of a name",
		"a//b":                              "is not a part of a name",
		"a/-b":                              "is not a part of a name",
		"a..b":                              "is not a part of a name",
		"a___b":                             "is not a part of a name",
		"agent@sha256:abc":                  "is not a digest",
		"agent@":                            "is not a digest",
		strings.Repeat("0f", 32):            "is the ID of an image",
		strings.Repeat("a", 256):            "longer than 255",
		"r.io/" + strings.Repeat("a/", 125) + "a": "longer than 255",
	} {
		if name, tag, err := imageref.Split(reference); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q %q, %v, want an error with %q", reference, name, tag, err, want)
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
		if err != nil || again != name || tagAgain != tag {
			t.Errorf("%q is %q %q, and that is %q %q, %v", reference, name, tag, again, tagAgain, err)
		}
	})
}
