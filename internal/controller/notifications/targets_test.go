// SPDX-License-Identifier: Apache-2.0

package notifications

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/policy"
)

const head = "apiVersion: config.everynode.dev/v1alpha1\nkind: NotificationTargets\n"

// testKey is that of a published example of the Standard Webhooks.
const testKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// keyFile writes a file with a key.
func keyFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A file that is wrong is refused, with the path of the field.
func TestTargetsThatAreWrong(t *testing.T) {
	key, short, lines := keyFile(t, testKey+"\n"), keyFile(t, "whsec_c2hvcnQ="), keyFile(t, testKey+"\n"+testKey)
	long, bare, empty := keyFile(t, "whsec_"+strings.Repeat("QUFB", 22)), keyFile(t, strings.TrimPrefix(testKey, "whsec_")), keyFile(t, "")
	url := "webhook: {url: 'https://x/y'}"
	keys := fmt.Sprintf("signingKeyFiles: [%q]", key)
	for body, want := range map[string]string{
		"targets: [{name: a, " + url + ", " + keys + ", unknown: 1}]":                                  "unknown field",
		"targets: [{name: A, " + url + ", " + keys + "}]":                                              "targets[0].name:",
		"targets: [{name: a, " + keys + "}]":                                                           "targets[0].webhook:",
		"targets: [{name: a, webhook: {}, " + keys + "}]":                                              "targets[0].webhook.url:",
		"targets: [{name: a, webhook: {url: 'ftp://x'}, " + keys + "}]":                                "targets[0].webhook.url:",
		"targets: [{name: a, webhook: {url: 'https://u:p@x'}, " + keys + "}]":                          "targets[0].webhook.url:",
		"targets: [{name: a, webhook: {url: 'http://x', bearerTokenFile: /t}, " + keys + "}]":          "targets[0].webhook.bearerTokenFile:",
		"targets: [{name: a, webhook: {url: 'https://x', caFile: /does/not/exist}, " + keys + "}]":     "targets[0].webhook.caFile:",
		"targets: [{name: a, " + url + "}]":                                                            "targets[0].signingKeyFiles: name one",
		"targets: [{name: a, " + url + fmt.Sprintf(", signingKeyFiles: [%q, %q, %q]}]", key, key, key): "targets[0].signingKeyFiles: name one",
		"targets: [{name: a, " + url + ", signingKeyFiles: [/does/not/exist]}]":                        "targets[0].signingKeyFiles[0]:",
		"targets: [{name: a, " + url + fmt.Sprintf(", signingKeyFiles: [%q, %q]}]", key, short):        "targets[0].signingKeyFiles[1]:",
		"targets: [{name: a, " + url + fmt.Sprintf(", signingKeyFiles: [%q]}]", long):                  "targets[0].signingKeyFiles[0]:",
		"targets: [{name: a, " + url + fmt.Sprintf(", signingKeyFiles: [%q]}]", bare):                  "must have whsec_ and 24 to 64 bytes in base64",
		"targets: [{name: a, " + url + fmt.Sprintf(", signingKeyFiles: [%q]}]", lines):                 "exactly one line",
		"targets: [{name: a, " + url + fmt.Sprintf(", signingKeyFiles: [%q]}]", empty):                 "exactly one line",
		"targets: [{name: a, " + url + ", " + keys + ", timeout: 1h}]":                                 "targets[0].timeout:",
		"targets: [{name: a, " + url + ", " + keys + ", timeout: 0s}]":                                 "targets[0].timeout:",
		"targets: [{name: a, " + url + ", " + keys + ", maxAge: 25h}]":                                 "targets[0].maxAge:",
		"targets: [{name: a, " + url + ", " + keys + ", maxAge: 1s}]":                                  "targets[0].maxAge:",
		"targets: [{name: a, " + url + ", " + keys + ", events: [failed, finished]}]":                  "targets[0].events[1]: \"finished\" is not known",
		"targets: [{name: a, " + url + ", " + keys + ", namespaces: [kube-system, B]}]":                "targets[0].namespaces[1]:",
		"targets: [{name: a, " + url + ", " + keys + "}, {name: b, " + url + "}]":                      "targets[1].signingKeyFiles:",
		"targets: [{name: a, " + url + ", " + keys + "}, {name: a, " + url + ", " + keys + "}]":        "targets[1].name: there is another target",
		"source: 'a b'\ntargets: []":                                                                   "source:",
		"source: '%zz'\ntargets: []":                                                                   "source:",
		"source: 'https://u:p@cluster'\ntargets: []":                                                   "source:",
	} {
		if _, err := parse([]byte(head + body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		} else if strings.Contains(err.Error(), "MfKQ9") {
			t.Errorf("%s: the error shows the key: %v", body, err)
		}
	}
	for _, body := range []string{"kind: Other\n", "\x00", head + "- 1", strings.ReplaceAll(head, "Notification", "Analysis") + "targets: []"} {
		if _, err := parse([]byte(body)); err == nil {
			t.Errorf("%q is accepted", body)
		}
	}
	if _, err := ReadTargets("/does/not/exist"); err == nil || !strings.HasPrefix(err.Error(), "reading the targets of notifications") {
		t.Error(err)
	}
}

// The fields have their meaning, and their defaults.
func TestTargetsAreRead(t *testing.T) {
	key := keyFile(t, testKey)
	all, err := parse([]byte(head + fmt.Sprintf("source: https://cluster-1.example\ntargets:\n- {name: a, webhook: {url: 'https://x/y'}, signingKeyFiles: [%q]}\n"+
		"- {name: b, webhook: {url: 'http://x'}, signingKeyFiles: [%q, %q], events: [failed, undone], namespaces: [kube-system], timeout: 5s, maxAge: 24h}\n", key, key, key)))
	if err != nil {
		t.Fatal(err)
	}
	a, b := all.all[0], all.all[1]
	if all.source != "https://cluster-1.example" || !slices.Equal(all.Names(), []string{"a", "b"}) || a.maxAge != time.Hour || a.client.Timeout != 10*time.Second || b.maxAge != 24*time.Hour || b.client.Timeout != 5*time.Second {
		t.Errorf("%+v, %+v, %+v", all, a, b)
	}
	for _, c := range []struct {
		kind      policy.NoticeType
		namespace string
		want      string
	}{{policy.NoticeFailed, "kube-system", "ab"}, {policy.NoticeUndone, "kube-system", "ab"}, {policy.NoticeFailed, "default", "a"}, {policy.NoticeComplete, "kube-system", "a"}} {
		got := ""
		for _, one := range all.all {
			if one.wants(&policy.Notice{Type: c.kind, Set: policy.Set{Namespace: c.namespace}}) {
				got += one.name
			}
		}
		if got != c.want {
			t.Errorf("%s in %s goes to %q, want %q", c.kind, c.namespace, got, c.want)
		}
	}
	if all, err = parse([]byte(head + "targets: []")); err != nil || all.source != "/everynode" {
		t.Errorf("%+v, %v", all, err)
	}
}

// No file makes the manager panic, and what is accepted is within the limits.
func FuzzTargets(f *testing.F) {
	f.Add([]byte(head + "targets: [{name: a, webhook: {url: 'https://x/y'}, signingKeyFiles: [testdata/key]}]"))
	f.Add([]byte(head + "source: a\ntargets: [{name: a, timeout: 1s, maxAge: 1m, events: [failed]}]"))
	f.Add([]byte("targets: {a: b}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parse(text)
		if err != nil {
			return
		}
		for _, one := range all.all {
			if one.name == "" || one.url == "" || len(one.keyFiles) < 1 || len(one.keyFiles) > 2 || one.maxAge < minMaxAge || one.maxAge > maxMaxAge || one.client.Timeout < minTimeout || one.client.Timeout > maxTimeout {
				t.Errorf("%q is accepted: %+v", text, one)
			}
		}
	})
}
