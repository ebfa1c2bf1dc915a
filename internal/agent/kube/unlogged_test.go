// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// TestSecretsAndTokensAreNotLogged, not even when everything is.
func TestSecretsAndTokensAreNotLogged(t *testing.T) {
	s := newServer(t)
	s.answers["GET /api/v1/namespaces/a/secrets/s"] = `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"},"data":{"password":"cGxhbnRlZA=="}}`
	s.answers["POST /apis/authentication.k8s.io/v1/tokenreviews"] = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","spec":{"token":"planted"},"status":{}}`
	s.answers["GET /api/v1/namespaces/a/pods/p"] = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","labels":{"shown":"to-all"}}}`
	var log bytes.Buffer
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(10), textlogger.Output(&log))))
	if secret, err := s.client.Secret(ctx, "a", "s"); err != nil || string(secret.Data["password"]) != "planted" {
		t.Fatal(secret, err)
	}
	if _, _, err := s.client.Review(ctx, "planted", "everynode-agent"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"planted", "cGxhbnRlZA"} {
		if bytes.Contains(log.Bytes(), []byte(text)) {
			t.Errorf("the log holds %s:\n%s", text, &log)
		}
	}
	if _, err := s.client.Pod(ctx, types.NamespacedName{Namespace: "a", Name: "p"}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(log.Bytes(), []byte("to-all")) {
		t.Errorf("the log does not hold what it may, so this test sees nothing:\n%s", &log)
	}
}
