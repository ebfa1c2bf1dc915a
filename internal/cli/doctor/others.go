// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/peers"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// agentName is the name of the DaemonSet of the agents.
const agentName = everynode.AgentName

func (p *installation) checkAgents(ctx context.Context) []Finding {
	if !p.present {
		return nil
	}
	d, err := p.c.Kubernetes.AppsV1().DaemonSets(p.agents).Get(ctx, agentName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && p.servesKruise():
		return []Finding{warning("install the agents (config/agent, or the chart), or name their namespace with --agent-namespace",
			"there are no agents in namespace %s: ImagePullJobs pull nothing", p.agents)}
	case apierrors.IsNotFound(err):
		return []Finding{ok("there are no agents in namespace %s; without kruise only owners of edge nodes need them", p.agents)}
	case err != nil:
		request := options.Request{Verb: "get", Resource: schema.GroupResource{Group: "apps", Resource: "daemonsets"}, Namespace: p.agents, Name: agentName}
		return []Finding{unreadable(err, request)}
	}
	p.agent = d
	do := fmt.Sprintf("kubectl everynode status -n %s daemonset/%s", p.agents, agentName)
	switch s := d.Status; {
	case s.DesiredNumberScheduled == 0:
		return []Finding{warning("check its nodeSelector", "no node should run an agent")}
	case s.NumberReady < s.DesiredNumberScheduled:
		return []Finding{warning(do, "%d of %d agents are ready", s.NumberReady, s.DesiredNumberScheduled)}
	default:
		return []Finding{ok("%d of %d agents are ready", s.NumberReady, s.DesiredNumberScheduled)}
	}
}

// versions compares the versions of the manager and the agents with this program, by the tags of the images.
func (p *installation) versions(context.Context) []Finding {
	var findings []Finding
	compare := func(what string, spec *corev1.PodSpec) {
		tag := tagOf(spec)
		switch {
		case tag == "":
			findings = append(findings, Finding{Result: Skipped, Says: "the version of the " + what + " is not known: its image has no tag"})
		case strings.TrimPrefix(tag, "v") != strings.TrimPrefix(p.o.Version, "v"):
			findings = append(findings, warning("use the same version for all: this program shows what its own version of the manager would do", "the %s is %s, this program %s", what, tag, p.o.Version))
		default:
			findings = append(findings, ok("the %s and this program are %s", what, tag))
		}
	}
	if p.manager != nil {
		compare("manager", &p.manager.Spec.Template.Spec)
	}
	if p.agent != nil {
		compare("agent", &p.agent.Spec.Template.Spec)
	}
	return findings
}

// tagOf returns the tag of the first image, or "" if it has none.
func tagOf(spec *corev1.PodSpec) string {
	if len(spec.Containers) == 0 {
		return ""
	}
	image, _, _ := strings.Cut(spec.Containers[0].Image, "@")
	_, tag, found := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if !found {
		return ""
	}
	return tag
}

// otherControllers looks for other controllers of the same sets.
func (p *installation) otherControllers(ctx context.Context) []Finding {
	switch {
	case !p.present:
		return nil
	case p.unsure: // another controller may be active on purpose
		return []Finding{{Result: Skipped, Says: "whether there is a manager is not known, so this check is not possible"}}
	}
	findings := p.probe(ctx)
	for _, r := range dialects.All() {
		if r.Peer != nil && (p.settings.hidden != "" || p.settings.serves(r.Name)) {
			findings = append(findings, p.otherController(ctx, r.Peer)...)
		}
	}
	if len(findings) == 0 {
		return []Finding{ok("no other controller does the work of this manager")}
	}
	return findings
}

// otherController checks whether another manager is active for the sets of its dialect.
func (p *installation) otherController(ctx context.Context, other *dialect.Peer) []Finding {
	var findings []Finding
	for _, name := range other.Leases {
		lease, err := p.lease(ctx, other.Namespace, name)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			request := options.Request{Verb: "get", Resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, Namespace: other.Namespace, Name: name}
			findings = append(findings, unreadable(err, request))
			continue
		case !held(lease, p.o.Now()):
			continue
		}
		off, err := peers.SwitchedOff(ctx, p.c.Kubernetes, other, *lease.Spec.HolderIdentity)
		switch {
		case err != nil:
			request := options.Request{Verb: "get", Resource: schema.GroupResource{Resource: "pods"}, Namespace: other.Namespace}
			findings = append(findings, unreadable(err, request))
		case off:
			findings = append(findings, ok("%s does not do the work of the dialect %s: its controller %s is off", other.Name, other.Dialect, other.Controller[0]))
		default:
			findings = append(findings, failed(other.Remedy+", or leave "+other.Dialect+" out of --dialects",
				"%s is active: it holds the lease %s/%s, so Everynode writes nothing for the dialect %s", other.Name, other.Namespace, name, other.Dialect))
		}
	}
	return findings
}

// probe checks whether another controller has observed the probe of the native dialect.
func (p *installation) probe(ctx context.Context) []Finding {
	if p.settings.hidden == "" && !p.settings.serves(dialects.Native) {
		return nil
	}
	d, err := p.c.Kubernetes.AppsV1().DaemonSets(p.namespace).Get(ctx, everynode.ProbeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return []Finding{warning("check the log of the leader, which creates the probe when it starts", "there is no probe %s/%s, so it is not known whether another controller reconciles DaemonSets", p.namespace, everynode.ProbeName)}
	case err != nil:
		request := options.Request{Verb: "get", Resource: schema.GroupResource{Group: "apps", Resource: "daemonsets"}, Namespace: p.namespace, Name: everynode.ProbeName}
		return []Finding{unreadable(err, request)}
	case answered(d):
		return []Finding{failed("start kube-controller-manager with --controllers=*,-daemonset, or leave native out of --dialects",
			"another controller reconciles the DaemonSets of apps/v1: it answered the probe %s/%s, so Everynode writes nothing for them", p.namespace, everynode.ProbeName)}
	default:
		return nil
	}
}

// answered reports whether another controller has observed the newest generation of the probe.
func answered(probe *appsv1.DaemonSet) bool {
	return probe.Generation > 0 && probe.Status.ObservedGeneration >= probe.Generation
}
