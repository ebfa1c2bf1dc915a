// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/pull"
)

// TestFirstSync: it is set once, when for the first time nothing is left to pull.
func TestFirstSync(t *testing.T) {
	at := func(tag string, phase pull.Phase, seconds int64) pull.State {
		s := pull.State{Key: pull.Key{Image: "a", Tag: tag}, Phase: phase}
		if seconds > 0 {
			s.Completed = time.Unix(seconds, 0)
		}
		return s
	}
	status := statusOf(nil, &v1beta1.NodeImageStatus{})
	if status.FirstSyncStatus != nil {
		t.Errorf("nothing was pulled, and it ended as %+v", status.FirstSyncStatus)
	}
	ofPod := at("1", pull.Succeeded, 5)
	ofPod.Pod = "uid"
	if status = statusOf([]pull.State{ofPod}, status); status.FirstSyncStatus != nil {
		t.Errorf("only a pod has asked, and it ended as %+v", status.FirstSyncStatus)
	}
	for _, phase := range []pull.Phase{pull.Waiting, pull.Pulling} {
		if status = statusOf([]pull.State{at("1", pull.Succeeded, 5), at("2", phase, 0)}, status); status.FirstSyncStatus != nil {
			t.Errorf("in the middle it has ended as %+v", status.FirstSyncStatus)
		}
	}
	status = statusOf([]pull.State{at("1", pull.Succeeded, 5), at("2", pull.Broken, 9)}, status)
	first := status.FirstSyncStatus
	if first == nil || first.Status != v1beta1.SyncStatusFailed || first.SyncAt.Unix() != 9 || first.Message != "1 of 2 images were given up" {
		t.Fatalf("ended as %+v", first)
	}
	if again := statusOf([]pull.State{at("1", pull.Succeeded, 5), at("2", pull.Succeeded, 20)}, status).FirstSyncStatus; again != first {
		t.Errorf("became %+v", again)
	}
	if good := statusOf([]pull.State{at("1", pull.Succeeded, 5)}, &v1beta1.NodeImageStatus{}).FirstSyncStatus; good == nil || good.Status != v1beta1.SyncStatusSucceeded || good.Message != "" {
		t.Errorf("ended as %+v", good)
	}
}
