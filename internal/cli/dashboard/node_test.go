// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// A page of a node that is deleted says so: it does not go on to show the node as it was.
func TestTheNodeIsDeletedWhileItIsViewed(t *testing.T) {
	cluster := fakecluster.New(t, append(roll().Objects(t), fakecluster.Node("alone", true))...)
	var looks atomic.Int64
	cluster.Options.Now = func() time.Time { return fakecluster.Now().Add(time.Duration(looks.Add(1)) * detailsPace) } // details are read each time
	watched := cluster.Watched("nodes")
	w := open(t, cluster)
	<-watched
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	messages := w.follow(ctx, "/api/node/stream?name=alone")
	if n := part[nodeDetails](t, <-messages, "node"); !n.Exists {
		t.Fatalf("the node is %+v", n)
	}
	if err := cluster.Kubernetes.CoreV1().Nodes().Delete(t.Context(), "alone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for m := range messages {
		if m.Parts["node"] == nil {
			continue
		}
		if n := part[nodeDetails](t, m, "node"); !n.Exists {
			return
		}
	}
	t.Error("the page shows the node as it was")
}
