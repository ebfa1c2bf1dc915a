// SPDX-License-Identifier: Apache-2.0

package manager

import (
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

// newHolds makes the controller that holds nodes, if sets of any namespace may ask for that. It gets the nodes from the watches of image pulls.
func (l *leader) newHolds(o *options, index *clustercache.Index) {
	if len(o.comeBackFirstNamespaces) == 0 || l.pulls == nil {
		return
	}
	l.holds = nodehold.New(nodehold.Options{
		Nodes: l.client.CoreV1().Nodes(), Sets: index, Dialect: dialects.Kruise, Namespaces: o.comeBackFirstNamespaces, Clock: clock.RealClock{},
		MayWrite: l.mayWriteAdvanced, Known: func() bool { return l.synced.Load() && !l.late.Load() },
	})
	l.pulls.watches.Handle(pullstore.Nodes, l.holds.NodeChanged)
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
