// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestImageID(t *testing.T) {
	const repo = "reg.local:5000/team/app"
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{repo + ":v1", repo + ":v1", true},
		{repo + ":v1", repo + ":v2", false},
		{repo, repo + ":v1", false},
		{repo + ":v1-digest-abc", repo + ":v2-digest-abc", true},
		{repo + ":v1-digest-abc", repo + ":v1-digest-abd", false},
		{repo + ":v1-digest-abc", "other:v1-digest-abc", false},
	} {
		if got := ImageID(tc.a) == ImageID(tc.b); got != tc.same {
			t.Errorf("%s and %s: same %v, want %v (%s, %s)", tc.a, tc.b, got, tc.same, ImageID(tc.a), ImageID(tc.b))
		}
	}
	for ref, prefix := range map[string]string{
		repo + ":v1": repo + "@sha256:", repo: repo + "@sha256:", "app": "app@sha256:",
		"app@sha256:0123": "app@sha256:0123",
	} {
		if id := ImageID(ref); !strings.HasPrefix(id, prefix) {
			t.Errorf("image id of %s is %s, want %s…", ref, id, prefix)
		}
	}
}

func TestPullable(t *testing.T) {
	for ref, want := range map[string][2]bool{
		"app:v1": {true, true}, "broken:v1": {}, "app:non-existent": {}, "app:v1-missing-on-node-0002": {true, false}, "app:v1-missing-on-node-00021": {true, true},
	} {
		if got := [2]bool{Pullable(ref, "node-0001"), Pullable(ref, "node-0002")}; got != want {
			t.Errorf("%s: %v, want %v", ref, got, want)
		}
	}
}

func TestImageStore(t *testing.T) {
	now := time.Unix(0, 0)
	s := NewImageStore("old")
	if !s.Has("old", now) || s.Has("new", now) {
		t.Fatal("a new store holds something else than it was given")
	}
	if at := s.Pull("new", now, 5*time.Second); !at.Equal(now.Add(5 * time.Second)) {
		t.Errorf("pulled at %s", at)
	}
	later := now.Add(2 * time.Second)
	if at := s.Pull("new", later, 5*time.Second); !at.Equal(now.Add(5 * time.Second)) {
		t.Errorf("a pull under way was not joined: %s", at)
	}
	if s.Has("new", later) || len(s.List(later)) != 1 {
		t.Error("an image is there before it is pulled")
	}
	if got := s.List(now.Add(5 * time.Second)); strings.Join(got, " ") != "new:latest old:latest" {
		t.Errorf("list %v", got)
	}
}

func TestProfileFlagsCarryTheProfile(t *testing.T) {
	want := Realistic()
	want.ImagePull, want.Jitter = 17*time.Millisecond, 0.5
	var got Profile
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	got.AddFlags(fs)
	if err := fs.Parse(want.Args()); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestProfileValidate(t *testing.T) {
	for name, p := range Profiles() {
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for flag, spoil := range map[string]func(*Profile){
		"--sim-image-pull":    func(p *Profile) { p.ImagePull = -1 },
		"--sim-jitter":        func(p *Profile) { p.Jitter = 2 },
		"--sim-crash-backoff": func(p *Profile) { p.CrashBackOff = 0 },
	} {
		p := Realistic()
		spoil(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("error %v does not name %s", err, flag)
		}
	}
}

func TestJitterStaysInItsBounds(t *testing.T) {
	p := Profile{Jitter: 0.2}
	seen := map[time.Duration]bool{}
	for i := range 1000 {
		d := p.spread(time.Second, strings.Repeat("x", i))
		if d < 800*time.Millisecond || d > 1200*time.Millisecond {
			t.Fatalf("%s is more than a fifth off", d)
		}
		seen[d] = true
	}
	if len(seen) < 900 {
		t.Errorf("only %d different delays out of 1000", len(seen))
	}
}

func TestAddressesAreUnique(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("10.9.8.0/29"))
	a.claim("10.9.8.2")
	seen := map[string]bool{"10.9.8.2": true}
	for range 5 {
		ip, err := a.take()
		if err != nil {
			t.Fatal(err)
		}
		if seen[ip] || !strings.HasPrefix(ip, "10.9.8.") {
			t.Errorf("address %s", ip)
		}
		seen[ip] = true
	}
	if ip, err := a.take(); err == nil {
		t.Errorf("a full network gave out %s", ip)
	}
	a.release("10.9.8.4")
	if ip, err := a.take(); err != nil || ip != "10.9.8.4" {
		t.Errorf("after a release: %s, %v", ip, err)
	}
}

// TestOneImageOfManyNames: what was pulled under one name of an image is there under all others.
func TestOneImageOfManyNames(t *testing.T) {
	s := NewImageStore("nginx:latest", "registry.local/app")
	for _, ref := range []string{"nginx", "docker.io/library/nginx", "index.docker.io/library/nginx:latest", "registry.local/app:latest"} {
		if !s.Has(ref, time.Time{}) {
			t.Errorf("%s is not there", ref)
		}
	}
	if s.Has("nginx:1", time.Time{}) || s.Has("registry.local/nginx", time.Time{}) {
		t.Error("other images are there")
	}
	if s.Pull("not an image", time.Unix(1, 0), 0); !s.Has("not an image", time.Unix(1, 0)) {
		t.Error("what has no other name is forgotten")
	}
	if ImageID("nginx") != ImageID("docker.io/library/nginx:latest") {
		t.Errorf("%s and %s", ImageID("nginx"), ImageID("docker.io/library/nginx:latest"))
	}
}
