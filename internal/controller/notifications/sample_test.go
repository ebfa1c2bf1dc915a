// SPDX-License-Identifier: Apache-2.0

package notifications

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/policy"
)

// The sample of the documentation is understood, where its keys exist.
func TestTheSampleIsUnderstood(t *testing.T) {
	text, err := os.ReadFile("../../../docs/samples/notification-targets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile(`/etc/everynode/notifications/[a-z]+\.key`)
	all, err := parse(keys.ReplaceAll(text, []byte("testdata/key")))
	if err != nil || !slices.Equal(all.Names(), []string{"chat", "pager"}) || all.source != "https://cluster-1.example" || all.all[1].maxAge != 6*time.Hour {
		t.Errorf("%+v, %v", all, err)
	}
}

// The function of the documentation accepts what is sent, with either of two keys, and nothing else.
func TestThePageVerifies(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	page, err := os.ReadFile("../../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(page), "```python\n")
	code, _, _ = strings.Cut(code, "```")
	other := "whsec_" + strings.Repeat("QUFB", 8)
	keys, err := readKeys([]string{"testdata/key", keyFile(t, other)})
	if err != nil {
		t.Fatal(err)
	}
	n := notice("canary")
	m, err := encode(&n, "/everynode", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		age       time.Duration
		key, body string
		want      bool
	}{
		{0, testKey, string(m.body), true}, {time.Minute, other, string(m.body), true}, {0, testKey, string(m.body) + " ", false},
		{0, "whsec_" + strings.Repeat("QUFC", 8), string(m.body), false}, {6 * time.Minute, testKey, string(m.body), false},
	} {
		h := http.Header{}
		sign(h, m, keys, time.Now().Add(-c.age))
		headers := map[string]string{}
		for name := range h {
			headers[strings.ToLower(name)] = h.Get(name)
		}
		in, err := json.Marshal(map[string]any{"key": c.key, "headers": headers, "body": c.body})
		if err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), python, "-c", code+"\nimport json, sys\ngot = json.load(sys.stdin)\nverify(got['key'], got['headers'], got['body'].encode())")
		command.Stdin = strings.NewReader(string(in))
		if out, err := command.CombinedOutput(); (err == nil) != c.want || !c.want && !strings.Contains(string(out), "ValueError") {
			t.Errorf("age %s, key %s, body %s: %v\n%s", c.age, c.key, c.body, err, out)
		}
	}
}

// The page of the documentation has all types.
func TestThePageHasAllTypes(t *testing.T) {
	page, err := os.ReadFile("../../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range policy.NoticeTypes() {
		if !strings.Contains(string(page), "\n| `"+TypePrefix+string(kind)+"` |") {
			t.Errorf("docs/notifications.md does not describe %s", kind)
		}
	}
}
