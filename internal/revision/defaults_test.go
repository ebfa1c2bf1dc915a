// SPDX-License-Identifier: Apache-2.0

package revision_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"everynode.dev/everynode/internal/revision"
)

// recordings are templates of sets, and the data of their revisions, as a running OpenKruise (July 2026) wrote both.
func recordings(t *testing.T) (all []struct {
	Set      string
	Template map[string]any
	Data     json.RawMessage
}) {
	t.Helper()
	text, err := os.ReadFile("testdata/openkruise/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil || len(all) != 3 {
		t.Fatalf("%d recordings, error %v", len(all), err)
	}
	return all
}

// TestDataOfOpenKruise: for each template the bytes are those that OpenKruise wrote, which it compares when it takes a set back.
func TestDataOfOpenKruise(t *testing.T) {
	for _, r := range recordings(t) {
		got, err := revision.DataOfOpenKruise(r.Template)
		var want bytes.Buffer
		if err := json.Compact(&want, r.Data); err != nil {
			t.Fatal(err)
		}
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s: error %v, got\n%s\nwant\n%s", r.Set, err, got, want.Bytes())
		}
		back, err := revision.Decode(got)
		if err != nil || !revision.Equal(back, r.Template) {
			t.Errorf("%s: what was written reads as %v, error %v", r.Set, back, err)
		}
	}
}

// TestSame: with and without its defaults a template means the same, and no other value does.
func TestSame(t *testing.T) {
	const stored = `{"metadata":{"creationTimestamp":null,"labels":{"app":"a"}},"spec":{"serviceAccountName":"s","containers":[{"name":"c","image":"img:1","resources":{},
		"ports":[{"containerPort":80}],"readinessProbe":{"httpGet":{"port":80}},"env":[{"name":"N","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}]}],
		"volumes":[{"name":"v","secret":{"secretName":"x"}},{"name":"h","hostPath":{"path":"/x"}},{"name":"e"}]}}`
	const served = `{"metadata":{"labels":{"app":"a"}},"spec":{"serviceAccountName":"s","serviceAccount":"s","containers":[{"name":"c","image":"img:1",
		"imagePullPolicy":"IfNotPresent","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
		"ports":[{"containerPort":80,"protocol":"TCP"}],
		"readinessProbe":{"httpGet":{"port":80,"path":"/","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
		"env":[{"name":"N","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"spec.nodeName"}}}]}],
		"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30,
		"volumes":[{"name":"v","secret":{"secretName":"x","defaultMode":420}},{"name":"h","hostPath":{"path":"/x","type":""}},{"name":"e","emptyDir":{}}]}}`
	a, b := parse(t, stored), parse(t, served)
	if revision.Equal(a, b) || !revision.Same(a, b) || !revision.Same(b, a) {
		t.Errorf("equal %t, same %t", revision.Equal(a, b), revision.Same(a, b))
	}
	for _, other := range []string{
		`{"spec":{"dnsPolicy":"Default"}}`, `{"spec":{"terminationGracePeriodSeconds":31}}`, `{"spec":{"containers":[{"name":"c","image":"img:1","imagePullPolicy":"Always"}]}}`,
		`{"spec":{"volumes":[{"name":"e","hostPath":{"path":"/e"}}]}}`,
	} {
		plain := map[string]string{
			`{"spec":{"containers":[{"name":"c","image":"img:1","imagePullPolicy":"Always"}]}}`: `{"spec":{"containers":[{"name":"c","image":"img:1"}]}}`,
			`{"spec":{"volumes":[{"name":"e","hostPath":{"path":"/e"}}]}}`:                      `{"spec":{"volumes":[{"name":"e"}]}}`,
		}[other]
		if plain == "" {
			plain = `{"spec":{}}`
		}
		if revision.Same(parse(t, other), parse(t, plain)) {
			t.Errorf("%s counts as %s", other, plain)
		}
	}
	if revision.Same(nil, nil) || revision.Same(a, nil) {
		t.Error("a nil template is the same as something")
	}
}

func TestPullPolicies(t *testing.T) {
	for image, want := range map[string]string{
		"img": "Always", "img:latest": "Always", "host:5000/img": "Always", "host:5000/img:latest": "Always",
		"img:1": "IfNotPresent", "host:5000/img:1": "IfNotPresent", "img@sha256:00": "IfNotPresent", "img:latest@sha256:00": "Always", "": "IfNotPresent",
	} {
		got := revision.WithDefaults(parse(t, `{"spec":{"containers":[{"name":"c","image":"`+image+`"}]}}`))
		if policy := got["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["imagePullPolicy"]; policy != want {
			t.Errorf("%s: %v, want %s", image, policy, want)
		}
	}
}
