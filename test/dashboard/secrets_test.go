// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// TestNoSecretsAreRead opens each page and tries each command of an Advanced DaemonSet with a rollout policy: none of the requests to the API server is about Secrets.
func TestNoSecretsAreRead(t *testing.T) {
	cluster := fakecluster.New(t, hostileSet(t, set)...)
	address := served(t, cluster)
	d := &dashboard{t: t}
	d.address, _, _ = strings.Cut(address, "#")
	_, token, _ := strings.Cut(address, "#token=")
	answer := d.send(t.Context(), http.MethodPost, "api/session", `{"token": "`+token+`"}`)
	_ = answer.Body.Close()
	d.session = answer.Cookies()[0].String()
	ask := func(method, path, body string) string {
		answer := d.send(t.Context(), method, path, body)
		defer func() { _ = answer.Body.Close() }()
		raw, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %s, %v: %s", path, body, answer.Status, err, raw)
		}
		return string(raw)
	}
	of := "?namespace=" + set + "&set=ads/" + set
	for _, path := range []string{"verdicts", "sets", "set" + of, "set/past" + of, "cell" + of + "&node=node-1", "rights" + of, "node?name=node-1"} {
		ask(http.MethodGet, "api/"+path, "")
	}
	verb := func(name, more string) string {
		return ask(http.MethodPost, "api/verb", fmt.Sprintf(`{"verb": %q, "namespace": %q, "set": "ads/%s"%s}`, name, set, set, more))
	}
	const dry, image = `, "dryRun": true`, `, "flags": {"image": "agent=registry.example/agent:3"}`
	var planned struct{ Data json.RawMessage }
	if err := json.Unmarshal([]byte(verb("plan", image)), &planned); err != nil || planned.Data == nil {
		t.Fatalf("there is no plan: %v", err)
	}
	ask(http.MethodPost, "api/apply", fmt.Sprintf(`{"verb": "apply", "namespace": %q, "set": "ads/%[1]s", "dryRun": true, "flags": {"image": "agent=registry.example/agent:3"}, "plan": %s}`, set, planned.Data))
	for name, more := range map[string]string{
		"explain-node": `, "node": "node-1"`, "diff": `, "arguments": ["1", "2"]`, "pause": dry, "resume": dry, "set-image": dry + `, "arguments": ["agent=registry.example/agent:3"]`,
		"partition": dry + `, "arguments": ["1"]`, "canary": dry + `, "arguments": ["zone=a"]`, "restart": dry, "suspend": dry, "undo": dry, "approve": dry, "promote": dry, "reject": dry,
		"retry": dry, "release": dry + `, "flags": {"all": "true"}`,
	} {
		verb(name, more)
	}
	asked := map[string]bool{}
	for _, action := range append(cluster.Kubernetes.Actions(), cluster.Dynamic.Actions()...) {
		asked[action.GetResource().Resource] = true
	}
	if asked["secrets"] || !asked["pods"] || !asked["rolloutpolicies"] {
		t.Errorf("the requests are about %v", asked)
	}
	// What would be noticed:
	if _, err := cluster.Kubernetes.CoreV1().Secrets(set).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if actions := cluster.Kubernetes.Actions(); actions[len(actions)-1].GetResource().Resource != "secrets" {
		t.Error("a request for Secrets is not noticed")
	}
}
