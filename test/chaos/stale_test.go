// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/test/observe"
)

// TestStaleReads: a manager to whom watches of pods and of nodes show everything late, and so differently late that one is behind the other,
// updates all sets, and undoes one of the updates. It keeps to all limits, and does nothing twice.
func TestStaleReads(t *testing.T) {
	const nodes = 20
	c := plane(t, nodes, 1)
	u := newTroupe(t, c, nodes, budgets{share: "40%", edge: 8})
	config, err := clientcmd.BuildConfigFromFlags("", c.Plane.ManagerKubeconfig(firstManager))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	proxy := &slow{resources: []string{"pods", "nodes"}, least: time.Second, most: 8 * time.Second, random: rand.New(rand.NewPCG(*seed, 3))}
	kubeconfig := proxy.serve(t, config)
	c.Kill(t, firstManager)
	death := observe.Death{Manager: firstManager, At: time.Now()}
	webhooks := freeAddress(t)
	c.RunManager(t, "--kubeconfig="+kubeconfig, "--leader-elect", "--dialects=native,openyurt,kruise",
		"--webhook-url=https://"+webhooks, "--webhook-bind-address="+webhooks)
	for _, m := range u.members {
		u.show(m, 2)
	}
	u.deletePod(u.members[1])
	u.settle("all sets are updated")
	for _, m := range u.members {
		u.show(m, 3)
	}
	created := u.ledger.Created()
	u.Poll("the next updates have begun", func() error { return more(u.ledger, created) })
	u.show(u.members[0], 2)
	u.show(u.members[4], 2)
	u.settle("all sets are updated, or back")
	u.rest(proxy.most + quiet)
	if err := u.ledger.Finish(u.Context()); err != nil {
		t.Fatal(err)
	}
	_, complaints := u.judgeSets()
	for _, complaint := range complaints {
		t.Error(complaint)
	}
	writes := u.writes()
	seen := observe.JudgeWrites(writes, observe.WriteRules{
		Namespace: u.Name, Users: []string{"localplane:admin"}, Fence: executor.Fence, Deaths: []observe.Death{death},
		Endings: u.ledger.Endings(),
	})
	for _, violation := range seen.Violations {
		t.Error(violation)
	}
	for _, w := range writes { // a delete that names a version must not take a pod that has become ready; those that do not find everything as it is known
		if w.Manager != "" && w.Version == "" && w.Namespace == u.Name && w.Resource == "pods" && w.Code == http.StatusConflict {
			t.Errorf("this was not the first time: %s", w)
		}
	}
	if proxy.mu.Lock(); proxy.held < nodes || proxy.worst < proxy.most/2 {
		t.Errorf("%d pieces of watches were held back, for %s at most", proxy.held, proxy.worst)
	}
	t.Logf("%d pieces of watches were held back, for %s at most; the managers wrote %v, and were refused %v", proxy.held, proxy.worst, seen.Counts, seen.Refused)
	proxy.mu.Unlock()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
