// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestFairServerNeedsNoLimit: without --kube-api-qps the manager limits itself only while the answers do not show that the API server shares its
// capacity itself.
func TestFairServerNeedsNoLimit(t *testing.T) {
	var fair atomic.Bool
	var code atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if fair.Load() {
			w.Header().Set(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID, "a")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(code.Load()))
		_, _ = w.Write([]byte(`{}`))
	}))
	defer server.Close()
	cfg := oneRate(&rest.Config{Host: server.URL, QPS: cautiousQPS, Burst: 3}, true)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	limit := client.CoreV1().RESTClient().GetRateLimiter()
	limited := func() bool {
		for range 20 { // 50 a second do not fill a bucket of 3 that fast
			if !limit.TryAccept() {
				return true
			}
		}
		return false
	}
	ask := func(isFair bool, status int) {
		fair.Store(isFair)
		code.Store(int64(status))
		_ = client.CoreV1().RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(t.Context()).Error()
	}
	if limit.QPS() != cautiousQPS || !limited() {
		t.Errorf("before the first answer there are %v requests a second, and no limit", limit.QPS())
	}
	for _, step := range []struct {
		fair    bool
		status  int
		limited bool
	}{
		{false, http.StatusOK, true}, {true, http.StatusOK, false}, {false, http.StatusBadGateway, false}, {false, http.StatusNotFound, false},
		{false, http.StatusOK, true}, {true, http.StatusTooManyRequests, false}, {false, http.StatusCreated, true}, {true, http.StatusForbidden, false},
	} {
		if ask(step.fair, step.status); limited() != step.limited {
			t.Errorf("after %+v: limited is %v", step, limited())
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	if err := limit.Wait(ended); err != nil {
		t.Error(err)
	}
	if cancel(); !errors.Is(limit.Wait(ended), context.Canceled) {
		t.Error("what is cancelled is let through")
	}
}

// TestGivenLimitHolds: a limit that is given holds, whatever the API server does.
func TestGivenLimitHolds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID, "a")
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(oneRate(&rest.Config{Host: server.URL, QPS: 0.001, Burst: 1}, false))
	if err != nil {
		t.Fatal(err)
	}
	_ = client.CoreV1().RESTClient().Get().AbsPath("/version").Do(t.Context()).Error()
	if client.CoreV1().RESTClient().GetRateLimiter().TryAccept() {
		t.Error("a second request is let through in the first 1,000 seconds")
	}
}
