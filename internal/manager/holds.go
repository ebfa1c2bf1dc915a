// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/controller/metrics"
	"everynode.dev/everynode/internal/controller/nodehold"
	"everynode.dev/everynode/internal/controller/pullstore"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/rollout"
)

// newHolds makes the controller that holds nodes, if sets of any namespace may ask for that. Nothing else need be served for it: nodes are released also while the
// sets, or image pulls, cannot be served.
func (l *leader) newHolds(o *options, index *clustercache.Index) {
	if l.pulls != nil {
		l.nodes = l.pulls.watches.Nodes
	}
	if len(o.comeBackFirstNamespaces) == 0 {
		return
	}
	if l.nodes == nil {
		l.nodes = pullstore.NewNodeStore()
	}
	l.holds = nodehold.New(nodehold.Options{
		Nodes: l.client.CoreV1().Nodes(), Sets: index, Dialect: dialects.Kruise, Namespaces: o.comeBackFirstNamespaces, Clock: clock.RealClock{},
		MayServe: l.mayWriteAdvanced, Known: func() bool { return l.synced.Load() && !l.late.Load() },
	})
}

// hold holds and releases nodes until ctx ends.
func (l *leader) hold(ctx context.Context) {
	if l.nodes.Follow(ctx, l.holds.NodeChanged) == nil {
		l.holds.Run(ctx)
	}
}

// mayWriteAdvanced reports whether this manager serves the Advanced DaemonSets.
func (l *leader) mayWriteAdvanced() bool {
	for i := range l.controller.Dialects {
		if d := &l.controller.Dialects[i]; d.Source.Dialect == dialects.Kruise {
			return d.MayWrite()
		}
	}
	return false
}

// observer returns what receives the results of passes.
func (l *leader) observer() daemonset.Observer {
	if l.holds == nil {
		return l.metrics
	}
	return observer{l.metrics, l.holds}
}

// observer passes on to both.
type observer struct {
	*metrics.Metrics
	holds *nodehold.Controller
}

// Decided implements daemonset.Observer.
func (o observer) Decided(key clustercache.Key, s *rollout.Snapshot, p *rollout.Plan, took time.Duration) {
	o.Metrics.Decided(key, s, p, took)
	o.holds.Decided(key, s)
}

// Forgotten implements daemonset.Observer.
func (o observer) Forgotten(key clustercache.Key) {
	o.Metrics.Forgotten(key)
	o.holds.Forgotten(key)
}

// Refused implements daemonset.Observer.
func (o observer) Refused(key clustercache.Key) {
	o.Metrics.Refused(key)
	o.holds.Refused(key)
}
