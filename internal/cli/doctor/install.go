// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/peers"
)

// forms is what is known about a cluster before an installation.
type forms struct {
	// native is who reconciles the DaemonSets of apps/v1.
	native nativeController
	// taken are the dialects whose work another project does, and unread reports whether that is not known of all.
	taken  []string
	unread bool
}

// takeAdvanced remembers that another project serves Advanced DaemonSets.
func (f *forms) takeAdvanced() { f.taken = append(f.taken, dialects.Kruise) }

// nativeController is what is known about the DaemonSet controller of Kubernetes.
type nativeController uint8

const (
	nativeHidden   nativeController = iota // its flags cannot be seen: a managed cluster, or a missing right
	nativeOn                               // kube-controller-manager runs in a pod of this cluster, with the controller
	nativeOff                              // it runs without the controller
	nativeDisagree                         // some of its pods run with the controller, others without
)

// beforeInstall returns the checks for what would clash with an installation.
func (p *installation) beforeInstall() []check {
	f := &forms{}
	return []check{
		{"cluster", p.cluster},
		{"kubernetes", p.kubernetes},
		{"manager", p.notInstalled},
		{"native", func(ctx context.Context) []Finding { return p.nativeController(ctx, f) }},
		{"definitions", func(ctx context.Context) []Finding { return p.foreignDefinitions(ctx, f) }},
		{"rivals", func(ctx context.Context) []Finding { return p.rivals(ctx, f) }},
		{"webhooks", func(ctx context.Context) []Finding { return p.foreignHooks(ctx, f) }},
		{"your-rights", p.installRights},
		{"form", func(context.Context) []Finding { return f.advice() }},
	}
}

// mayInstall returns an error if something must be done first.
func mayInstall(findings []Finding) error {
	if slices.ContainsFunc(findings, func(f Finding) bool { return f.Result == Failed }) {
		return errors.New("do not install yet: first do what is listed above")
	}
	return nil
}

// oldestMinor and newestMinor are the minors of Kubernetes on which Everynode has been tested; the chart refuses older ones.
const oldestMinor, newestMinor = 34, 37

// kubernetes checks the version of the API server.
func (p *installation) kubernetes(context.Context) []Finding {
	info, err := p.c.Discovery.ServerVersion()
	if err != nil {
		return nil // the check before has reported it
	}
	minor, err := strconv.Atoi(strings.TrimRight(info.Minor, "+"))
	switch {
	case err != nil:
		return []Finding{{Result: Skipped, Says: fmt.Sprintf("the version %q cannot be read", info.GitVersion)}}
	case minor < oldestMinor:
		return []Finding{failed("upgrade Kubernetes", "Kubernetes %s is older than 1.%d, the oldest version that has been tested", info.GitVersion, oldestMinor)}
	case minor > newestMinor:
		return []Finding{warning("try it in another cluster first", "Kubernetes %s is newer than 1.%d, the newest version that has been tested", info.GitVersion, newestMinor)}
	default:
		return []Finding{ok("Everynode has been tested with Kubernetes 1.%d to 1.%d, and this is %s", oldestMinor, newestMinor, info.GitVersion)}
	}
}

// notInstalled reports a manager that is there already.
func (p *installation) notInstalled(ctx context.Context) []Finding {
	_, err := p.c.Kubernetes.AppsV1().Deployments(p.namespace).Get(ctx, managerName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return []Finding{p.activeAnywhere(ctx)}
	case err != nil:
		return []Finding{unreadable(err, options.Request{Verb: "get", Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Namespace: p.namespace, Name: managerName})}
	default:
		return []Finding{warning("kubectl everynode doctor", "Everynode is installed in namespace %s already", p.namespace)}
	}
}

// activeAnywhere looks for a manager of another namespace, or one that is not a Deployment of this cluster, by the leases that have its name.
func (p *installation) activeAnywhere(ctx context.Context) Finding {
	leases, err := p.c.Kubernetes.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + managerName})
	if err != nil {
		return unreadable(err, options.Request{Verb: "list", Resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}})
	}
	for i := range leases.Items {
		if l := &leases.Items[i]; l.Name == managerName && held(l, p.o.Now()) {
			return warning("kubectl everynode doctor --manager-namespace "+l.Namespace, "a manager is active already: it holds the lease %s/%s", l.Namespace, l.Name)
		}
	}
	return ok("there is no manager")
}

// nativeController reports, from the flags of kube-controller-manager, whether its DaemonSet controller is on.
func (p *installation) nativeController(ctx context.Context, f *forms) []Finding {
	const system = metav1.NamespaceSystem
	pods, err := p.c.Kubernetes.CoreV1().Pods(system).List(ctx, metav1.ListOptions{LabelSelector: "component=kube-controller-manager"})
	if err != nil {
		return []Finding{unreadable(err, options.Request{Verb: "list", Resource: schema.GroupResource{Resource: "pods"}, Namespace: system})}
	}
	var on, off int
	for i := range pods.Items {
		if withoutNative(&pods.Items[i].Spec) {
			off++
		} else {
			on++
		}
	}
	switch {
	case on+off == 0:
		return []Finding{ok("kube-controller-manager is not a pod of this cluster, as in managed clusters: only its operator can switch its DaemonSet controller off")}
	case on > 0 && off > 0:
		f.native = nativeDisagree
		return []Finding{failed("give all of them the same flag --controllers", "%d kube-controller-managers run with the DaemonSet controller, and %d without", on, off)}
	case off > 0:
		f.native = nativeOff
		return []Finding{ok("kube-controller-manager runs without its DaemonSet controller")}
	default:
		f.native = nativeOn
		return []Finding{ok("kube-controller-manager runs with its DaemonSet controller; it can be switched off with --controllers=*,-daemonset")}
	}
}

// withoutNative reports whether a kube-controller-manager runs without the DaemonSet controller.
func withoutNative(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return peers.Off(peers.Controllers(slices.Concat(c.Command, c.Args)), []string{"daemonset", "daemonset-controller"})
	})
}

// foreignDefinitions reports the CRDs of another project that have the names of Everynode's.
func (p *installation) foreignDefinitions(ctx context.Context, f *forms) []Finding {
	var names []string
	for _, resource := range []string{kruiseapi.Resource, kruiseapi.ResourceJob, kruiseapi.ResourceNodeImage} {
		name := resource + "." + kruiseapi.Group
		crd, err := p.c.Dynamic.Resource(kruise.Definitions()).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			f.unread = true
			return []Finding{unreadable(err, options.Request{Verb: "get", Resource: kruise.Definitions().GroupResource(), Name: name})}
		case !kruise.OwnDefinition(crd):
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []Finding{ok("no other project has CRDs with the names of Everynode's")}
	}
	f.takeAdvanced()
	return []Finding{warning("leave kruise out of the dialects, or take the CRDs over after the installation: kubectl everynode adopt",
		"%s are of another project (OpenKruise); the chart does not change them", strings.Join(names, ", "))}
}

// rivals reports the managers of other projects that do the work of a dialect.
func (p *installation) rivals(ctx context.Context, f *forms) []Finding {
	var findings []Finding
	for _, r := range dialects.All() {
		if r.Peer == nil {
			continue
		}
		for _, finding := range p.otherController(ctx, r.Peer) {
			f.unread = f.unread || finding.Result == Skipped
			if finding.Result == Failed { // it clashes only with that dialect
				finding.Result = Warning
				if !slices.Contains(f.taken, r.Name) {
					f.taken = append(f.taken, r.Name)
				}
			}
			findings = append(findings, finding)
		}
	}
	if len(findings) == 0 {
		return []Finding{ok("no manager of another project is active")}
	}
	return findings
}

// installs is what a user must be allowed to do for an installation. What has no namespace here is not in a namespace.
func (p *installation) installs() []authorizationv1.ResourceAttributes {
	return []authorizationv1.ResourceAttributes{
		{Verb: "create", Resource: "namespaces"},
		{Verb: "create", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"},
		{Verb: "bind", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, // escalate does not imply it
		{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "roles", Namespace: p.namespace},
		{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "roles", Namespace: p.namespace},
		{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "rolebindings", Namespace: p.namespace},
		{Verb: "bind", Group: "rbac.authorization.k8s.io", Resource: "roles", Namespace: p.namespace},
		{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
		{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
		{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
		{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"},
		{Verb: "create", Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"},
		{Verb: "create", Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"},
		{Verb: "create", Group: "apps", Resource: "deployments", Namespace: p.namespace},
		{Verb: "create", Group: "apps", Resource: "daemonsets", Namespace: p.agents},
		{Verb: "create", Group: "policy", Resource: "poddisruptionbudgets", Namespace: p.namespace},
		{Verb: "create", Group: "networking.k8s.io", Resource: "networkpolicies", Namespace: p.namespace},
		{Verb: "create", Resource: "services", Namespace: p.namespace},
		{Verb: "create", Resource: "serviceaccounts", Namespace: p.namespace},
		{Verb: "create", Resource: "secrets", Namespace: p.namespace}, // where helm keeps its releases
	}
}

// installRights checks what a user must be allowed to do for an installation.
func (p *installation) installRights(ctx context.Context) []Finding {
	var missing []string
	for _, r := range p.installs() {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &r}}
		answer, err := p.c.Kubernetes.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return []Finding{unreadable(err, options.Request{Verb: "create", Resource: schema.GroupResource{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}})}
		}
		if !answer.Status.Allowed {
			missing = append(missing, r.Verb+" "+schema.GroupResource{Group: r.Group, Resource: r.Resource}.String())
		}
	}
	if len(missing) == 0 {
		return []Finding{ok("you have the rights for an installation")}
	}
	return []Finding{failed("ask an administrator of the cluster to install", "you may not: %s", strings.Join(missing, ", "))}
}

// advice is which form of installation fits.
func (f *forms) advice() []Finding {
	var serve []string
	why := "kube-controller-manager keeps the pods of apps/v1, and rollout policies say which old pods are deleted"
	switch f.native {
	case nativeOff:
		serve, why = []string{dialects.Native}, "no other controller keeps the pods of apps/v1"
	case nativeOn:
		why += ". To let Everynode keep them, serve native instead of policy, and start kube-controller-manager with --controllers=*,-daemonset"
	}
	if len(serve) == 0 {
		serve = []string{dialects.Policy}
	}
	switch {
	case slices.Contains(f.taken, dialects.Kruise):
	case f.unread:
		why += ". It is not known whether another project serves Advanced DaemonSets, so kruise is not among them"
	default:
		serve = append(serve, dialects.Kruise)
	}
	return []Finding{ok("set dialects: [%s] in the values of the chart: %s", strings.Join(serve, ", "), why)}
}
