// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"everynode.dev/everynode/internal/policy"
)

// TestPartialAnswersDoNotCount: servers that speak the protocol of Prometheus for a cluster of storages say in a field of their own that a part of the data is missing. Such an answer passes
// nothing, whether it is about an analysis or about alerts.
func TestPartialAnswersDoNotCount(t *testing.T) {
	for partial, want := range map[string]bool{"true": false, "false": true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"status": "success", "isPartial": ` + partial + `, "data": {"resultType": "vector", "result": []}}`))
		}))
		t.Cleanup(server.Close)
		client := &http.Client{Timeout: time.Second}
		source, err := newPrometheus(server.URL, client)
		if err != nil {
			t.Fatal(err)
		}
		_, err = source.alerts(t.Context(), "", true)
		if _, queried := source.query(t.Context(), &policy.Question{Query: "errors"}); (err == nil) != want || (queried == nil) != want {
			t.Errorf("partial %s: alerts: %v, a query: %v", partial, err, queried)
		}
	}
}
