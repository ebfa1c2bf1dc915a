// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	protocol "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// TestMain is the plugin of these tests too: their configuration runs this program with a variable that says so.
func TestMain(m *testing.M) {
	if answer, ok := os.LookupEnv("PLUGIN_ANSWER"); ok {
		os.Exit(bePlugin(answer))
	}
	os.Exit(m.Run())
}

func bePlugin(answer string) int {
	request := protocol.CredentialProviderRequest{}
	if err := json.NewDecoder(os.Stdin).Decode(&request); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if answer == "fail" {
		fmt.Fprintf(os.Stderr, "no login for %s", request.Image)
		return 3
	}
	if answer == "blab" {
		fmt.Fprintf(os.Stderr, "%s was refused at https://ann:planted-user@r.io/?sig=planted-query", os.Getenv("REGISTRY_TOKEN"))
		return 3
	}
	fmt.Println(strings.NewReplacer("IMAGE", request.Image, "VERSION", request.APIVersion, "ARG", os.Args[len(os.Args)-1]).Replace(answer))
	return 0
}

// plugins writes a configuration with one provider and loads it.
func plugins(t *testing.T, provider string) (*Plugins, error) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"login", "other"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "config.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n" + provider
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(file, dir)
}

const good = `
- name: login
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.example.com"]
  defaultCacheDuration: 10m
  args: [from-args]
  env:
  - name: PLUGIN_ANSWER
    value: '{"apiVersion":"VERSION","kind":"CredentialProviderResponse","cacheKeyType":"Image","auth":{"*.example.com":{"username":"IMAGE ARG","password":"p"}}}'
`

func TestPluginIsRunForItsImages(t *testing.T) {
	for _, version := range versions() {
		p, err := plugins(t, strings.Replace(good, "k8s.io/v1", "k8s.io/"+version, 1))
		if err != nil {
			t.Fatal(err)
		}
		ring, err := p.Ask(t.Context(), "r.example.com/app")
		if err != nil {
			t.Fatal(err)
		}
		if got := names(ring.Lookup("r.example.com/app")); got != "r.example.com/app from-args" {
			t.Errorf("%s: %q", version, got)
		}
		if ring, err = p.Ask(t.Context(), "quay.io/app"); err != nil || len(ring.entries) != 0 {
			t.Errorf("it was asked for an image of somebody else: %v %v", ring, err)
		}
	}
}

func TestPluginThatFailsDoesNotStopOthers(t *testing.T) {
	failing := strings.Replace(good[:strings.Index(good, "    value:")]+"    value: fail\n", "name: login", "name: other", 1)
	p, err := plugins(t, failing+good)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := p.Ask(t.Context(), "r.example.com/app")
	if err == nil || !strings.Contains(err.Error(), "credential provider other: ") || !strings.Contains(err.Error(), "exit status") {
		t.Errorf("the failure of the plugin is not reported: %v", err)
	}
	if names(ring.Lookup("r.example.com/app")) == "" {
		t.Error("the other plugin was not asked")
	}
}

func TestPluginAnswersThatAreNone(t *testing.T) {
	for answer, want := range map[string]string{
		`{"password":"hunter2"`: "is not the JSON",
		`{"apiVersion":"credentialprovider.kubelet.k8s.io/v9","kind":"CredentialProviderResponse"}`: "is not a credentialprovider.kubelet.k8s.io/v1 CredentialProviderResponse",
		`{"apiVersion":"VERSION","kind":"CredentialProviderResponse","cacheKeyType":"Never"}`:       "cacheKeyType",
	} {
		p, err := plugins(t, good[:strings.Index(good, "    value:")]+"    value: '"+answer+"'\n")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = p.Ask(t.Context(), "r.example.com/app"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v does not say %q", answer, err, want)
		}
	}
}

func TestPluginThatHangsEndsWithTheContext(t *testing.T) {
	run := runner("/bin/sh", providerConfig{Args: []string{"-c", "sleep 1000"}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := run(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	for want, provider := range map[string]string{
		"names no credential provider": " []\n",
		"it is listed twice":           good + good,
		"it has no matchImages":        strings.Replace(good, `["*.example.com"]`, "[]", 1),
		"write for example 10m":        strings.Replace(good, "10m", "-10m", 1),
		"write credentialprovider":     strings.Replace(good, "k8s.io/v1", "k8s.io/v9", 1),
		"executable?":                  strings.Replace(good, "name: login", "name: nobody", 1),
		"the name of a file":           strings.Replace(good, "name: login", "name: ../login", 1),
		"unknown field":                strings.Replace(good, "args", "arguments", 1),
	} {
		if _, err := plugins(t, provider); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestProviderThatNeedsAPodIsNotAsked(t *testing.T) {
	p, err := plugins(t, good+"  tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true}\n")
	if err != nil {
		t.Fatal(err)
	}
	if ring, err := p.Ask(t.Context(), "r.example.com/app"); err != nil || len(ring.entries) != 0 {
		t.Errorf("it was asked: %v %v", ring, err)
	}
}

func TestAnswersAreCachedAsThePluginSays(t *testing.T) {
	type ask struct {
		after      time.Duration
		repository string
		calls      int
	}
	for _, c := range []struct {
		kind, duration string
		asks           []ask
	}{
		{"Image", "", []ask{{0, "r.io/a", 1}, {0, "r.io/a", 1}, {0, "r.io/b", 2}, {11 * time.Minute, "r.io/a", 3}}},
		{"Registry", "", []ask{{0, "r.io/a", 1}, {0, "r.io/b", 1}, {0, "s.io/b", 2}}},
		{"Global", "", []ask{{0, "r.io/a", 1}, {0, "s.io/b", 1}}},
		{"Image", "0s", []ask{{0, "r.io/a", 1}, {0, "r.io/a", 2}}},
		{"Image", "1h", []ask{{0, "r.io/a", 1}, {30 * time.Minute, "r.io/a", 1}, {61 * time.Minute, "r.io/a", 2}}},
	} {
		calls, now := 0, time.Unix(0, 0)
		p := newPlugin(providerConfig{APIVersion: "v"}, "")
		p.config.DefaultCacheDuration = duration(10 * time.Minute)
		p.now = func() time.Time { return now }
		p.run = func(context.Context, []byte) ([]byte, error) {
			calls++
			text := fmt.Sprintf(`{"apiVersion":"v","kind":"CredentialProviderResponse","cacheKeyType":%q`, c.kind)
			if c.duration != "" {
				text += fmt.Sprintf(`,"cacheDuration":%q`, c.duration)
			}
			return []byte(text + "}"), nil
		}
		for _, a := range c.asks {
			now = time.Unix(0, 0).Add(a.after)
			if _, err := p.ask(t.Context(), a.repository); err != nil || calls != a.calls {
				t.Errorf("%s %s, %s after %v: %d calls, not %d (%v)", c.kind, c.duration, a.repository, a.after, calls, a.calls, err)
			}
		}
	}
}
func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// The error output of a plugin may contain the secrets that it was given or has received, so none of it is in the error.
func TestErrorOutputOfAPluginIsDropped(t *testing.T) {
	p, err := plugins(t, good[:strings.Index(good, "    value:")]+
		"    value: blab\n  - name: REGISTRY_TOKEN\n    value: planted-variable\n")
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Ask(t.Context(), "r.example.com/app")
	if err == nil || !strings.Contains(err.Error(), "exit status") || strings.Contains(err.Error(), "planted") {
		t.Errorf("error %v", err)
	}
}

// A plugin that writes without end does not block on its error output.
func TestPluginWithEndlessErrorOutput(t *testing.T) {
	_, err := runner("/bin/sh", providerConfig{Args: []string{"-c", "yes no login | head -c 8388608 >&2; exit 3"}})(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
}
