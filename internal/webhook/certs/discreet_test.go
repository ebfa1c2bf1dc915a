// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// TestKeyIsNotLogged, not even when everything is.
func TestKeyIsNotLogged(t *testing.T) {
	kept := []byte{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			kept, _ = io.ReadAll(r.Body)
		}
		if len(kept) == 0 {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
			return
		}
		_, _ = w.Write(kept)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(10), textlogger.Output(&log))))
	keeper := &Keeper{Client: client, Namespace: "system", Secret: "certs", Names: names(), Published: nowhere}
	for range 2 {
		if err := keeper.sync(ctx, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if len(kept) == 0 || bytes.Contains(log.Bytes(), []byte(keyKey)) {
		t.Errorf("%d bytes are kept, and the log holds the key:\n%s", len(kept), &log)
	}
	if _, err := client.CoreV1().Secrets("system").Get(ctx, "certs", metav1.GetOptions{}); err != nil || !bytes.Contains(log.Bytes(), []byte(keyKey)) {
		t.Errorf("a client does not log what it gets, so this test sees nothing: %v\n%s", err, &log)
	}
}
