// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/features"
)

const managerName = installed.Manager

// install is the remedy for missing parts.
const install = "install Everynode (charts/everynode), or name its namespace with --manager-namespace"

func (p *installation) cluster(context.Context) []Finding {
	version, err := p.c.Discovery.ServerVersion()
	if err != nil {
		f := failed("check whether kubectl version reaches the cluster", "the API server does not report its version: %v", err)
		f.last = true
		return []Finding{f}
	}
	return []Finding{ok("Kubernetes %s answers", version.GitVersion)}
}

// managers checks the Deployment, and whether Everynode is installed at all.
func (p *installation) managers(ctx context.Context) []Finding {
	request := options.Request{Verb: "get", Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Namespace: p.namespace, Name: managerName}
	d, err := p.c.Kubernetes.AppsV1().Deployments(p.namespace).Get(ctx, managerName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return []Finding{p.findElsewhere(ctx)}
	case err != nil:
		p.present = true // as far as can be determined
		return []Finding{unreadable(err, request)}
	}
	p.manager, p.present = d, true
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	do := fmt.Sprintf("kubectl describe pods -n %s -l app.kubernetes.io/name=%s", p.namespace, managerName)
	switch ready := d.Status.ReadyReplicas; {
	case wanted == 0:
		return []Finding{failed(fmt.Sprintf("kubectl scale deployment -n %s %s --replicas 2", p.namespace, managerName), "the manager is scaled to zero")}
	case ready == 0:
		return []Finding{failed(do, "0 of %d managers are ready", wanted)}
	case ready < wanted:
		return []Finding{warning(do, "%d of %d managers are ready", ready, wanted)}
	case wanted == 1:
		return []Finding{warning("run two replicas, so that one takes over when the other stops", "1 of 1 manager is ready")}
	default:
		return []Finding{ok("%d of %d managers are ready", ready, wanted)}
	}
}

// findElsewhere looks for a manager that is not a Deployment of this cluster, by its lease.
func (p *installation) findElsewhere(ctx context.Context) Finding {
	lease, err := p.lease(ctx, p.namespace, managerName)
	p.unsure = err != nil && !apierrors.IsNotFound(err)
	p.present = p.unsure || err == nil && held(lease, p.o.Now()) // as far as can be determined
	p.elsewhere = p.present
	switch {
	case p.unsure:
		return unreadable(err, p.leaseRequest())
	case !p.present:
		return warning(install, "there is no manager in namespace %s: other controllers reconcile the daemon sets", p.namespace)
	case silence(lease, p.o.Now()) != "":
		return warning(p.alive(), "a manager was active in namespace %s, but not as a Deployment of this cluster, and %s", p.namespace, silence(lease, p.o.Now()))
	default:
		return ok("a manager is active in namespace %s, but not as a Deployment of this cluster", p.namespace)
	}
}

// logs returns where the log of the manager is.
func (p *installation) logs() string {
	if p.elsewhere {
		return "the log of the manager, where it runs"
	}
	return fmt.Sprintf("kubectl logs -n %s deployment/%s", p.namespace, managerName)
}

// alive returns how to check whether a manager without renewals is still running.
func (p *installation) alive() string {
	return "check that it runs, and that its clock and the clock of this machine agree: " + p.logs()
}

func (p *installation) lease(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error) {
	return p.c.Kubernetes.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
}

// leaseRequest describes the request for the lease of the manager.
func (p *installation) leaseRequest() options.Request {
	return options.Request{Verb: "get", Resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, Namespace: p.namespace, Name: managerName}
}

// held reports whether the lease was renewed in time, by the local clock, which may differ by a minute.
func held(l *coordinationv1.Lease, now time.Time) bool {
	const skew = time.Minute
	s := l.Spec
	return s.HolderIdentity != nil && *s.HolderIdentity != "" && s.RenewTime != nil && s.LeaseDurationSeconds != nil &&
		now.Sub(s.RenewTime.Time) < time.Duration(*s.LeaseDurationSeconds)*time.Second+skew
}

// silence returns how long a held lease has not been renewed, if that is longer than its duration: its holder may be
// dead, or its clock may differ. Otherwise it is empty.
func silence(l *coordinationv1.Lease, now time.Time) string {
	said, lasts := now.Sub(l.Spec.RenewTime.Time), time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second
	if said <= lasts {
		return ""
	}
	return fmt.Sprintf("has not renewed its lease for %s (the lease lasts %s)", view.Duration(said), view.Duration(lasts))
}

func (p *installation) leader(ctx context.Context) []Finding {
	if !p.present {
		return nil
	}
	lease, err := p.lease(ctx, p.namespace, managerName)
	do := p.logs()
	switch {
	case apierrors.IsNotFound(err):
		return []Finding{failed(do, "no manager has become leader yet: there is no lease %s/%s", p.namespace, managerName)}
	case err != nil:
		return []Finding{unreadable(err, p.leaseRequest())}
	case !held(lease, p.o.Now()):
		return []Finding{failed(do, "no manager is the leader: the lease %s/%s is not renewed", p.namespace, managerName)}
	}
	p.led = true
	if silent := silence(lease, p.o.Now()); silent != "" {
		return []Finding{warning(p.alive(), "%s is the leader, and %s", *lease.Spec.HolderIdentity, silent)}
	}
	renewed := view.Duration(p.o.Now().Sub(lease.Spec.RenewTime.Time))
	return []Finding{ok("%s is the leader, and renewed its lease %s ago", *lease.Spec.HolderIdentity, renewed)}
}

// settings are the visible settings of the manager.
type settings struct {
	dialects []string
	// hidden is the reason why the settings are unknown, or "".
	hidden string
	// outside reports whether the webhooks use a URL, and holds whether sets may hold other pods back from nodes.
	outside, holds bool
}

// serves reports whether the manager serves the dialect, as far as is known.
func (s settings) serves(dialect string) bool { return slices.Contains(s.dialects, dialect) }

// readSettings reads the flags of the manager.
func (p *installation) readSettings(context.Context) []Finding {
	if p.manager == nil {
		p.settings = settings{hidden: "no Deployment can be read"}
		if p.present {
			return []Finding{{Result: Skipped, Says: "dialects and feature gates are not known: " + p.settings.hidden}}
		}
		return nil
	}
	flags := installed.Flags(p.manager)
	p.settings = settings{dialects: installed.Dialects(flags), outside: flags["webhook-url"] != "", holds: flags["come-back-first-namespaces"] != ""}
	var findings []Finding
	if file := flags["config"]; file != "" {
		p.settings.hidden = "some may be set in the file " + file
		findings = append(findings, warning("read the file in the pod of the manager", "settings may be in the configuration file %s, which cannot be read from here", file))
	}
	for _, name := range p.settings.dialects {
		if !slices.Contains(dialects.Names(), name) {
			findings = append(findings, failed("write one of "+strings.Join(dialects.Names(), ", "), "--dialects names %q, which is not a dialect", name))
		}
	}
	return append(findings, p.gates(flags["feature-gates"])...)
}

// gates returns a finding about the feature gates, and about unknown ones.
func (p *installation) gates(text string) []Finding {
	served := ok("dialects %s; feature gates %s", strings.Join(p.settings.dialects, ", "), orDefault(text))
	gates, err := features.New()
	if err != nil {
		return []Finding{failed("report this as a bug", "the feature gates cannot be read: %v", err)}
	}
	if err := gates.Set(text); err != nil {
		return []Finding{failed("write NAME=true or NAME=false of docs/reference/flags.md", "--feature-gates %s: %v", text, err)}
	}
	if !gates.Enabled(features.ConflictProbe) {
		return []Finding{served, warning("enable ConflictProbe, unless you know that no other controller reconciles these sets",
			"the feature gate ConflictProbe is off: another controller that reconciles the same sets is not detected")}
	}
	return []Finding{served}
}

func orDefault(text string) string {
	if text == "" {
		return "as by default"
	}
	return text
}
