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
	"everynode.dev/everynode/internal/rbac"
)

// heldNodes looks for nodes that the manager holds other pods back from: without a manager, their taint stays.
func (p *installation) heldNodes(ctx context.Context) []Finding {
	remedy := fmt.Sprintf("remove the annotation %s from the Advanced DaemonSets, wait until the manager has removed the taint, and run this command again; "+
		"or kubectl taint nodes NAME %s-, once no manager runs", everynode.ComeBackFirst, everynode.HoldKey)
	return p.ifHeld(ctx, func(nodes, names string) Finding {
		return failed(remedy, "the taint %s, which only the manager removes, keeps pods that do not tolerate it from %s: %s", everynode.HoldKey, nodes, names)
	})
}

// forgottenNodes looks for nodes that are held and that no manager releases: there is none, or it may not write nodes any more.
func (p *installation) forgottenNodes(ctx context.Context) []Finding {
	why, do := "no manager runs here", fmt.Sprintf("kubectl taint nodes NAME %s-", everynode.HoldKey)
	switch {
	case p.manager != nil && p.mayNotHold:
		why, do = "the manager may not patch nodes", "give the manager this right, or "+do
	case p.manager != nil && (p.settings.hidden != "" || p.settings.holds):
		return nil
	case p.manager != nil:
		why = "the manager runs without --come-back-first-namespaces"
	case p.present:
		return nil
	}
	return p.ifHeld(ctx, func(nodes, names string) Finding {
		return failed(do, "the taint %s keeps pods that do not tolerate it from %s, and stays, because %s: %s", everynode.HoldKey, nodes, why, names)
	})
}

// holdingRight returns a finding if the manager shall hold nodes and may not: the role for that is bound by an administrator, and without it only the log of the
// manager has the reason.
func (p *installation) holdingRight(ctx context.Context, user, account string) ([]Finding, error) {
	if !p.settings.holds {
		return nil, nil
	}
	call := rbac.Call{Verb: "patch", Resource: "nodes"}
	if allowed, err := p.allowed(ctx, user, call); err != nil || allowed {
		return nil, err
	}
	p.mayNotHold = true
	return []Finding{failed(
		fmt.Sprintf("kubectl create clusterrolebinding %[1]s --clusterrole=%[1]s --serviceaccount=%[2]s:%[3]s", rbac.ComeBackFirst, p.namespace, account),
		"%s may not %s, so it holds no node for the Advanced DaemonSets of --come-back-first-namespaces, and releases none", user, text(call))}, nil
}

// ifHeld returns the finding about the nodes that are held, if any: nodes is their number in words.
func (p *installation) ifHeld(ctx context.Context, finding func(nodes, names string) Finding) []Finding {
	var held []string
	list := metav1.ListOptions{Limit: page}
	for {
		nodes, err := p.c.Kubernetes.CoreV1().Nodes().List(ctx, list)
		if err != nil {
			return []Finding{unreadable(err, options.Request{Verb: "list", Resource: schema.GroupResource{Resource: "nodes"}})}
		}
		for i := range nodes.Items {
			if slices.ContainsFunc(nodes.Items[i].Spec.Taints, everynode.IsHold) {
				held = append(held, nodes.Items[i].Name)
			}
		}
		if list.Continue = nodes.Continue; list.Continue == "" {
			break
		}
	}
	if len(held) == 0 {
		return nil
	}
	slices.Sort(held)
	return []Finding{finding(view.Plural(len(held), "node"), listed(held))}
}
