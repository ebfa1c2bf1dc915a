// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// mute is a cluster that answers the question whether it is there, and then nothing.
type mute struct{ *world }

func (mute) Pod(ctx context.Context, _ types.NamespacedName) (*corev1.Pod, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// An API server that takes a request and never answers holds up neither the decisions nor who asks: their locks are let go of.
func TestAnAPIServerThatNeverAnswers(t *testing.T) {
	w := decided(t)
	w.down = false
	w.api.o.Cluster = mute{w}
	synctest.Test(t, func(t *testing.T) {
		if again := w.api.CarryOut(t.Context()); again != pendingInterval {
			t.Errorf("it looks again after %v", again)
		}
		for path, code := range map[string]int{deedPath: http.StatusBadGateway, upgradePath: http.StatusInternalServerError} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1"+path, http.NoBody)
			r.Header.Set("Authorization", "Bearer "+ownerToken)
			answer := httptest.NewRecorder()
			w.api.ServeHTTP(answer, r)
			if answer.Code != code {
				t.Errorf("%s is answered %d %s", path, answer.Code, answer.Body)
			}
		}
	})
	if _, ok := w.decision(); !ok || len(w.deleted) > 0 {
		t.Errorf("the decision is still there: %v, deleted are %q", ok, w.deleted)
	}
}
