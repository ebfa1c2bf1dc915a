// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/plan"
	"everynode.dev/everynode/internal/rollout"
)

// The kinds of warning.
const (
	warnLocal       = "local-defaults"
	warnSpec        = "specification"
	warnSlow        = "slow"
	warnHostPort    = "host-port"
	warnImages      = "images"
	warnDisruption  = "pod-disruption-budget"
	warnPriority    = "priority"
	warnRoom        = "requests"
	warnUnreachable = "unreachable"
	warnInPlace     = "not-in-place"
	warnRestart     = "restart"
	warnStuck       = "not-finished"
	warnNothing     = "nothing-changes"
	warnManager     = "field-manager"
	warnDialect     = "dialect"
	warnPolicy      = "rollout-policy"
)

// warnings returns the warnings, the most important first.
func (f *prediction) warnings(ctx context.Context, c *options.Clients) []Warning {
	all := []Warning{}
	for _, of := range []func() []Warning{
		f.warnDryRun, f.warnPolicy, f.warnWaves, func() []Warning { return f.warnServed(ctx, c) },
		f.warnHostPorts, f.warnEnds, f.warnReach, f.warnPlace, f.warnRestarts, f.warnBudget, f.warnImage,
		func() []Warning { return f.warnDisruptions(ctx, c) },
		f.warnPriorities, f.warnRoom,
		f.warnOwners,
	} {
		all = append(all, of()...)
	}
	return all
}

func (f *prediction) warnDryRun() []Warning {
	var all []Warning
	if f.by == triedLocally {
		all = append(all, Warning{Kind: warnLocal, Message: "there was no dry run on the server " + f.why +
			": defaults were set locally, so fields and webhooks that only the server knows are not taken into account"})
	}
	for _, problem := range f.view.Workload.Problems {
		all = append(all, Warning{Kind: warnSpec, Message: problem.Message})
	}
	if f.unchanged() && !f.withoutEdit {
		all = append(all, Warning{Kind: warnNothing, Message: "the edit does not change the specification: the plan shows the work that is left anyway"})
	}
	return all
}

// warnPolicy warns about a policy that was not validated, and about one that holds no node, or perhaps none.
func (f *prediction) warnPolicy() []Warning {
	var all []Warning
	if f.unvalidated != nil {
		all = append(all, Warning{Kind: warnPolicy, Message: fmt.Sprintf("the API server has not validated the policy in %s, and may refuse it: %v", f.policyIn, f.unvalidated)})
	}
	return append(append(all, f.warnConflict()...), f.warnEnforced()...)
}

// warnConflict warns about policies of the cluster that apply to the set in addition to the one of --policy.
func (f *prediction) warnConflict() []Warning {
	if f.policy == nil || f.unenforced != "" {
		return nil
	}
	var others []string
	for _, p := range f.ofCluster {
		if p.Typed.Name != f.policy.Typed.Name {
			others = append(others, "rolloutpolicy/"+p.Typed.Name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	slices.Sort(others)
	verb := "applies"
	if len(others) > 1 {
		verb = "apply"
	}
	return []Warning{{Kind: warnPolicy, Message: fmt.Sprintf("%s of the cluster %s to %s too: with rolloutpolicy/%s the manager would follow no policy (Stalled), and start no update; "+
		"change spec.targets so that one remains, or give the policy in %s the same name to replace it", strings.Join(others, ", "), verb, f.named.Title(), f.policy.Typed.Name, f.policyIn)}}
}

// warnEnforced warns about a policy that holds no node, or perhaps none.
func (f *prediction) warnEnforced() []Warning {
	if f.unserved {
		return []Warning{{Kind: warnPolicy, Message: installed.Unserved()}}
	}
	if text := f.unheld(); text != "" {
		return []Warning{{Kind: warnPolicy, Message: text}}
	}
	if f.unenforced == "" {
		return nil
	}
	return []Warning{{Kind: warnPolicy, Message: fmt.Sprintf("the rollout policy %s holds no node back, because another controller keeps the pods and updates them by itself: "+
		"set spec.updateStrategy.type to OnDelete first, so that the policy controls the updates", f.unenforced)}}
}

// unheld says that another controller updates the nodes of the set without a policy that was deleted; empty if it does not.
func (f *prediction) unheld() string {
	e := inspect.Evaluation{View: f.view, Set: f.named, Governance: f.governance}
	return e.Unheld()
}

// warnHostPorts warns about host ports: two pods that need the same host port cannot run next to each other. For a port
// that only new pods need, pods of other workloads are not read.
func (f *prediction) warnHostPorts() []Warning {
	var all []Warning
	if ports := shared(f.was, f.is); len(ports) > 0 && f.result.Doubling && f.result.Count()[plan.Surge] > 0 {
		all = append(all, Warning{Kind: warnHostPort, Message: fmt.Sprintf(
			"with maxSurge the new pod runs next to the old one, and both need %s of the node: the new pod stays pending and blocks the update; set maxSurge to 0, or remove hostPort",
			strings.Join(ports, ", "))})
	}
	starts := slices.ContainsFunc(f.result.Nodes, func(n plan.Node) bool { return n.Verdict.Starts() })
	if ports := added(f.was, f.is); len(ports) > 0 && starts {
		all = append(all, Warning{Kind: warnHostPort, Message: fmt.Sprintf(
			"%s of the node is new: pods of other workloads were not checked; where one uses it, the new pod stays pending", strings.Join(ports, ", "))})
	}
	return all
}

// added returns the host ports that only pods of the new template need.
func added(was, is map[string]any) []string {
	old := hostPorts(was)
	var newImages []string
	for _, port := range hostPorts(is) {
		if !slices.ContainsFunc(old, func(had hostPort) bool { return had == port || had == hostPort{text: port.text} }) {
			newImages = append(newImages, port.text)
		}
	}
	slices.Sort(newImages)
	return slices.Compact(newImages)
}

// shared returns the host ports that pods of both templates need. A port at different host addresses is not shared.
func shared(was, is map[string]any) []string {
	old := hostPorts(was)
	var both []string
	for _, port := range hostPorts(is) {
		if slices.ContainsFunc(old, port.clashes) {
			both = append(both, port.text)
		}
	}
	slices.Sort(both)
	return slices.Compact(both)
}

// hostPort is a host port as port/protocol, and the host address; empty means all addresses.
type hostPort struct{ text, address string }

func (p hostPort) clashes(other hostPort) bool {
	return p.text == other.text && (p.address == "" || other.address == "" || p.address == other.address)
}

// running returns the containers of a template that run during the life of the pod, including restartable init
// containers.
func running(template map[string]any) []map[string]any {
	var all []map[string]any
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := nested(template, "spec")[list].([]any)
		for _, c := range containers {
			container, _ := c.(map[string]any)
			if list == "containers" || container["restartPolicy"] == string(corev1.ContainerRestartPolicyAlways) {
				all = append(all, container)
			}
		}
	}
	return all
}

// hostPorts returns the host ports of a template.
func hostPorts(template map[string]any) []hostPort {
	var ports []hostPort
	spec, _ := template["spec"].(map[string]any)
	network, _ := spec["hostNetwork"].(bool) // then each container port is a host port
	for _, container := range running(template) {
		list, _ := container["ports"].([]any)
		for _, p := range list {
			port, _ := p.(map[string]any)
			number, _ := port["hostPort"].(int64)
			if number == 0 && network {
				number, _ = port["containerPort"].(int64)
			}
			if number == 0 {
				continue
			}
			protocol, _ := port["protocol"].(string)
			address, _ := port["hostIP"].(string)
			if address == anyAddress {
				address = ""
			}
			ports = append(ports, hostPort{fmt.Sprintf("port %d/%s", number, cmp.Or(protocol, "TCP")), address})
		}
	}
	return ports
}

// anyAddress means all addresses of a node, as in the scheduler.
const anyAddress = "0.0.0.0"

// warnEnds warns if an update of a node does not finish: it uses its slot of the budget forever.
func (f *prediction) warnEnds() []Warning {
	byMessage := map[string][]string{}
	for _, n := range f.result.Nodes {
		if n.Verdict.Starts() && !n.Ended {
			why := n.Obstacle
			if why == "" && f.fails[n.Name] {
				why = "its containers crash, as --what-if says"
			}
			if why == "" && !f.given.bold {
				why = f.obstacles.text()
			}
			if why == "" && n.Verdict == plan.Surge {
				why = f.obstacles.surgeObstacle()
			}
			why = cmp.Or(why, "the cause is not known")
			byMessage[why] = append(byMessage[why], n.Name)
		}
	}
	var all []Warning
	for why, nodes := range byMessage {
		all = append(all, Warning{Kind: warnStuck, Nodes: nodes, Message: fmt.Sprintf(
			"on %s the update does not finish (%s), which keeps using the budget", view.Plural(len(nodes), "node"), why)})
	}
	slices.SortFunc(all, func(a, b Warning) int { return strings.Compare(a.Message, b.Message) })
	return all
}

// warnReach warns about nodes that are not ready: they use the budget, or are skipped.
func (f *prediction) warnReach() []Warning {
	s := &f.view.Snapshot
	var take, out, alone []string
	for i, n := range f.result.Nodes {
		of := &s.Nodes[i]
		switch {
		case n.Away:
			take = append(take, n.Name)
		case n.Reason == rollout.WaitUnreachable:
			out = append(out, n.Name)
		case s.Set.Strategy != rollout.RollingUpdate && !of.Ready && !of.Gone && (of.Fit == rollout.MustRun || len(of.Pods) > 0):
			alone = append(alone, n.Name)
		}
	}
	var all []Warning
	for _, of := range []struct {
		nodes  []string
		effect string
	}{
		{take, fmt.Sprintf("until that changes, each uses 1 of the budget of %d", f.result.Limit)},
		{out, "the update skips these nodes until they are ready"},
		{alone, "nothing is updated there"},
	} {
		if len(of.nodes) > 0 {
			all = append(all, Warning{Kind: warnUnreachable, Nodes: of.nodes, Message: fmt.Sprintf("%s not ready: %s", view.Plural(len(of.nodes), "node"), of.effect)})
		}
	}
	return all
}

// warnPlace warns about pods that are recreated although the set requests in-place updates.
func (f *prediction) warnPlace() []Warning {
	byDetail := map[rollout.Detail][]string{}
	for _, n := range f.result.Nodes {
		if n.Verdict == plan.Recreate && n.Detail != rollout.NoDetail {
			byDetail[n.Detail] = append(byDetail[n.Detail], n.Name)
		}
	}
	var all []Warning
	for detail := range rollout.DetailNotRestarted + 1 {
		if nodes := byDetail[detail]; len(nodes) > 0 {
			all = append(all, Warning{Kind: warnInPlace, Nodes: nodes,
				Message: fmt.Sprintf("on %s the pod is recreated: %s%s", view.Plural(len(nodes), "node"), detail.Sentence(), f.because(detail))})
		}
	}
	return all
}

// fewFields is how many fields are named that prevent a change in place; the diff has all.
const fewFields = 5

// because names the fields of the edit that prevent a change in place.
func (f *prediction) because(detail rollout.Detail) string {
	var fields []string
	for _, field := range change.Fields(kruise.Prevents(f.was, f.is, detail)) {
		fields = append(fields, field.Path.String())
	}
	if len(fields) == 0 {
		return ""
	}
	more := ""
	if len(fields) > fewFields {
		fields, more = fields[:fewFields], fmt.Sprintf(" and %d more", len(fields)-fewFields)
	}
	return ": " + strings.Join(fields, ", ") + more
}

// warnRestarts warns that containers are restarted by agents, which is assumed to work.
func (f *prediction) warnRestarts() []Warning {
	s := &f.view.Snapshot
	var nodes []string
	for i, n := range f.result.Nodes {
		if n.Verdict == plan.InPlace && slices.ContainsFunc(s.Nodes[i].Pods, func(p rollout.Pod) bool {
			return p.Revision >= 0 && p.Revision < len(s.Revisions) && s.Revisions[p.Revision].Restart
		}) {
			nodes = append(nodes, n.Name)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	return []Warning{{Kind: warnRestart, Nodes: nodes, Message: fmt.Sprintf(
		"on %s the agent of the node restarts containers: where no agent has stopped them %v after they should have ended, the pod is recreated",
		view.Plural(len(nodes), "node"), rollout.RestartWithin)}}
}

// warnImage warns about images that nodes must pull first.
func (f *prediction) warnImage() []Warning {
	var among []string
	for _, n := range f.result.Nodes {
		if n.Verdict.Starts() && n.Verdict != plan.Remove {
			among = append(among, n.Name)
		}
	}
	if f.imageInventory.reporting == 0 || len(among) == 0 {
		return nil
	}
	var all []Warning
	for _, image := range f.newImages() {
		if lack := f.imageInventory.lacking(image, among); len(lack) > 0 {
			all = append(all, Warning{Kind: warnImages, Nodes: lack, Message: fmt.Sprintf(
				"image %s (%s) must be pulled first on %d of %d nodes, according to their reports: this adds to the estimate", image, f.imageInventory.size(image), len(lack), len(among))})
		}
	}
	return all
}

// warnDisruptions warns that a PodDisruptionBudget limits evictions, but not rollouts.
func (f *prediction) warnDisruptions(ctx context.Context, c *options.Clients) []Warning {
	list, err := c.Kubernetes.PolicyV1().PodDisruptionBudgets(f.named.Namespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil // optional: without the right to read them there is no warning
	}
	of := labels.Set{}
	for key, value := range nested(f.is, "metadata", "labels") {
		of[key], _ = value.(string)
	}
	var all []Warning
	for i := range list.Items {
		selector, err := metav1.LabelSelectorAsSelector(list.Items[i].Spec.Selector)
		if err == nil && selector.Matches(of) {
			all = append(all, Warning{Kind: warnDisruption, Message: fmt.Sprintf(
				"PodDisruptionBudget %s covers these pods, but does not limit the update: a rollout deletes pods and evicts none, so only maxUnavailable and maxSurge limit it", list.Items[i].Name)})
		}
	}
	return all
}

// warnPriorities warns about a priority class that does not exist, which prevents every new pod, and about one that is
// removed.
func (f *prediction) warnPriorities() []Warning {
	name, old := classOf(f.is), classOf(f.was)
	switch {
	case name == "" && old == "":
		return nil
	case name == "":
		return []Warning{{Kind: warnPriority, Message: fmt.Sprintf("the pods lose the priority class %s: on a full node the new pod may not be scheduled once the old one is gone", old)}}
	}
	switch class := f.obstacles.class; {
	case f.obstacles.noClass != "":
		return []Warning{{Kind: warnPriority, Message: fmt.Sprintf("there is no priority class %s: the server refuses every new pod", name)}}
	case class != nil && name != old:
		return []Warning{{Kind: warnPriority, Message: fmt.Sprintf("new pods get the priority %d of class %s: on a full node, pods with a lower priority are preempted", class.Value, name)}}
	default:
		return nil
	}
}

// warnOwners warns if another program applies the whole specification, and so would revert the edit.
func (f *prediction) warnOwners() []Warning {
	if f.live == nil {
		return nil
	}
	owners := change.Appliers(f.live.Object)
	if len(owners) == 0 {
		return nil
	}
	return []Warning{{Kind: warnManager, Message: fmt.Sprintf(
		"the specification is applied by %s: make the change there too, or the next apply reverts it", strings.Join(owners, ", "))}}
}
