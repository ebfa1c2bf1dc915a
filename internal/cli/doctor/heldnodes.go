// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/view"
)

// heldNodes looks for nodes that the manager holds other pods back from: without a manager, their taint stays.
func (p *installation) heldNodes(ctx context.Context) []Finding {
	held, unread := p.held(ctx)
	switch {
	case unread != nil:
		return []Finding{*unread}
	case len(held) == 0:
		return nil
	}
	remedy := fmt.Sprintf("remove the annotation %s from the Advanced DaemonSets, wait until the manager has removed the taint, and run this command again; "+
		"or kubectl taint nodes NAME %s-, once no manager runs", everynode.ComeBackFirst, everynode.HoldKey)
	return []Finding{failed(remedy, "the taint %s, which only the manager removes, keeps pods that do not tolerate it from %s: %s",
		everynode.HoldKey, view.Plural(len(held), "node"), listed(held))}
}

// forgottenNodes looks for nodes that are held and that no manager releases: there is none, or it may not write nodes any more.
func (p *installation) forgottenNodes(ctx context.Context) []Finding {
	why := "no manager runs here"
	switch {
	case p.manager != nil && (p.settings.hidden != "" || p.settings.holds):
		return nil
	case p.manager != nil:
		why = "the manager runs without --come-back-first-namespaces"
	case p.present:
		return nil
	}
	held, unread := p.held(ctx)
	switch {
	case unread != nil:
		return []Finding{*unread}
	case len(held) == 0:
		return nil
	}
	return []Finding{failed(fmt.Sprintf("kubectl taint nodes NAME %s-", everynode.HoldKey),
		"the taint %s keeps pods that do not tolerate it from %s, and stays, because %s: %s", everynode.HoldKey, view.Plural(len(held), "node"), why, listed(held))}
}

// held returns the names of the nodes that are held.
func (p *installation) held(ctx context.Context) (names []string, unread *Finding) {
	list := metav1.ListOptions{Limit: page}
	for {
		nodes, err := p.c.Kubernetes.CoreV1().Nodes().List(ctx, list)
		if err != nil {
			f := unreadable(err, options.Request{Verb: "list", Resource: schema.GroupResource{Resource: "nodes"}})
			return nil, &f
		}
		for i := range nodes.Items {
			if slices.ContainsFunc(nodes.Items[i].Spec.Taints, everynode.IsHold) {
				names = append(names, nodes.Items[i].Name)
			}
		}
		if list.Continue = nodes.Continue; list.Continue == "" {
			slices.Sort(names)
			return names, nil
		}
	}
}
