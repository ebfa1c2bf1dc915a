// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/cri/fake"
)

// TestAgentTellsNobodyASecret: a pull secret, the token of the node, that of the agent and those that it is shown are in nothing that it writes,
// not even in its log at the highest level.
func TestAgentTellsNobodyASecret(t *testing.T) {
	const password, shown, signature = "planted-password-of-ann", "planted-token-of-somebody", "planted-signature-of-somebody"
	metrics := freeAddress(t)
	n := newAPINode(t)
	n.args = append(n.args, "-v=10", "--metrics-bind-address", metrics)
	runtime := fake.New()
	seen := ""
	runtime.Answer = func(_ context.Context, r *runtimeapi.PullImageRequest) error {
		seen = r.GetAuth().GetPassword()
		return fmt.Errorf("403 Forbidden: Get %q: the password %s was not taken", "https://ann:"+password+"@r.io/v2/app?sig="+signature, password)
	}
	n.serve(runtime)
	reference := secret(t, "planted", "r.io", "ann", password)
	n.edit(fmt.Sprintf(`{"spec":{"images":{"r.io/app":{"tags":[{"tag":"v1","pullPolicy":{"backoffLimit":0},"pullSecrets":[{"namespace":%q,"name":%q}]}]}}}}`, reference.Namespace, reference.Name))
	n.begin()
	n.await("r.io/app", "v1", v1beta1.ImagePhaseFailed, "403 Forbidden")
	n.event("PullImageFailed")
	answers := n.untilAnswer(http.MethodGet, "/v2/pods", 200, "")
	_, refusal := n.ask(http.MethodGet, "/v2/pods", "", shown)
	if seen != password {
		t.Fatalf("the runtime was given the password %q, so nothing was planted", seen)
	}
	told := map[string]string{"what it answers": answers + refusal, "its metrics": fetched(t, "http://"+metrics+"/metrics")}
	log, err := os.ReadFile(n.log)
	if err != nil || !strings.Contains(string(log), "Response Body") {
		t.Fatalf("it does not log all that it could: %v", err)
	}
	told["its log"] = string(log)
	images, err := plane.images().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	told["NodeImages"] = fmt.Sprint(images.Items)
	events, err := plane.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	told["events"] = events.String()
	secrets := n.secrets(t, password, shown)
	secrets["a signature in an address"] = signature
	for what, secret := range secrets {
		for where, text := range told {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s is in %s: …%s", what, where, text[max(0, i-300):i])
			}
		}
	}
}

// secrets are what nobody may be told, by what it is.
func (n *apiNode) secrets(t *testing.T, password, shown string) map[string]string {
	t.Helper()
	token, err := os.ReadFile(n.dir + "/token")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := clientcmd.LoadFromFile(n.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"the password": password, "the password in base64": base64.StdEncoding.EncodeToString([]byte(`{"auths":{"r.io":{"username":"ann","password":"` + password + `"}}}`))[24:72],
		"a token that it was shown": shown, "the token of the node": strings.TrimSpace(string(token)),
	}
	for _, user := range kubeconfig.AuthInfos {
		all["its own token"] = user.Token[strings.LastIndex(user.Token, ".")+1:]
	}
	for what, secret := range all {
		if len(secret) < 10 {
			t.Fatalf("%s is %q, which is no secret", what, secret)
		}
	}
	return all
}

func fetched(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil || len(data) == 0 {
		t.Fatalf("%d bytes: %v", len(data), err)
	}
	return string(data)
}
