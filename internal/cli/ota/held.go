// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"context"
	"fmt"
	"slices"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/ota"
	"everynode.dev/everynode/internal/rollout"
)

// held explains the refusal of a pod that is said to be up to date although it has an old revision: a rollout policy has not released its wave, so no newer revision is announced to it.
// Other refusals stay as they are.
func (d *action) held(ctx context.Context, c *options.Clients, one *candidate, refused error) error {
	if refused == nil || ota.Refusal(one.pod, one.next, one.old) != v2.ReasonUpToDate {
		return refused
	}
	m, err := inspect.At(ctx, d.Options, c, one.set)
	if err != nil || m.Governance.Policy() == nil {
		return refused
	}
	at := slices.Index(m.Nodes(), one.pod.Spec.NodeName)
	if at < 0 || !slices.ContainsFunc(m.Snapshot.Nodes[at].Pods, func(p rollout.Pod) bool { return p.Name == one.pod.Name && p.Revision != m.Snapshot.Set.Update }) {
		return refused
	}
	text := fmt.Sprintf("pod %s on node %s has an old revision, and no newer one is announced to it: it waits for %s", one.pod.Name, one.pod.Spec.NodeName, m.Governance.Policy())
	if waves := m.Governance.Waves; at < len(waves) && waves[at] >= 0 {
		text += fmt.Sprintf(", which has not released its wave %s yet", m.Governance.Policy().Rules.Waves[waves[at]].Name)
	}
	return fmt.Errorf("%s: see `%s explain-node %s %s`", text, options.Program, one.pod.Spec.NodeName, one.set)
}
