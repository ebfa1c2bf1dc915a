// SPDX-License-Identifier: Apache-2.0

// Package doctor implements the command that checks an installation: what is installed, whether it works, and what to
// do if it does not.
//
// A check reads with the rights of the user, changes nothing, and returns findings: ok, warning, failed, or skipped if
// a right is missing. A finding that is not ok has a remedy.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/dialects"
)

// Result is the result of a check.
type Result string

// The results.
const (
	OK      Result = "ok"
	Warning Result = "warning"
	Failed  Result = "failed"
	Skipped Result = "skipped" // the user has no right to check
)

// Finding is a result of a check.
type Finding struct {
	Check  string `json:"check"`
	Result Result `json:"result"`
	Says   string `json:"says"`
	// Do is the remedy.
	Do string `json:"do,omitempty"`
	// last reports whether no further check is useful: all would have the same result.
	last bool
}

const long = `Check an installation of Everynode: the managers and their leader, the dialects and feature gates, the CRDs of the Advanced
DaemonSet, the webhooks and their certificate, the rights of the manager, the agents of the nodes, flow schemas and policies,
whether the versions match, and whether another controller does the same work.

It reads with your own rights and changes nothing. Checks that you have no right for are skipped, and the missing right is named. Where
nothing is installed, it reports that; the verbs that only read work there too.

With --before-uninstall it checks only for work that would stay unfinished without a manager: pods that are being changed in place, which
get no traffic until the change has finished, and objects that are stored in a version that the manager must convert. While there are any,
or while a check cannot be made, it exits with 1 and prints what to do first.

With --before-install it checks what would clash with an installation: the version of Kubernetes, the DaemonSet controller of
kube-controller-manager, definitions and managers of OpenKruise and OpenYurt, webhooks of other projects, and your rights. It prints which
form of installation fits.

` + options.ExitText + `
A check that failed also exits with 1.`

const example = `  # All checks
  kubectl everynode doctor

  # An installation in a namespace of its own
  kubectl everynode doctor --manager-namespace edge-system

  # Before an installation: what would clash, and which form fits
  kubectl everynode doctor --before-install

  # Whether the manager can be uninstalled, or scaled to zero
  kubectl everynode doctor --before-uninstall

  # What has failed, for a script
  kubectl everynode doctor -o json | jq '.[] | select(.result == "failed")'`

// agentNamespace is the default namespace of the agents.
const agentNamespace = everynode.AgentNamespace

// New returns the command doctor.
func New(o *options.Options) *cobra.Command {
	p := &installation{o: o}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check an installation of Everynode", Long: long, Example: example,
		Args: options.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&p.namespace, "manager-namespace", everynode.Namespace, "The namespace of the manager.")
	cmd.Flags().StringVar(&p.agents, "agent-namespace", agentNamespace, "The namespace of the agents.")
	cmd.Flags().BoolVar(&p.coming, "before-install", false, "Check only what would clash with an installation, and which form of it fits.")
	cmd.Flags().BoolVar(&p.leaving, "before-uninstall", false, "Check only what must be done before Everynode is uninstalled, or its manager is scaled to zero.")
	cmd.MarkFlagsMutuallyExclusive("before-install", "before-uninstall")
	return cmd
}

// installation contains what the checks know about an installation.
type installation struct {
	o                 *options.Options
	c                 *options.Clients
	namespace, agents string
	// leaving reports whether the checks are for --before-uninstall, and coming whether they are for --before-install.
	leaving, coming bool
	// inside reports whether the checks run with the account of the manager.
	inside bool

	// manager is nil if there is no Deployment, or if it cannot be read.
	manager *appsv1.Deployment
	// led reports whether a manager holds its lease, present whether Everynode is active here, as far as can be
	// determined.
	led, present bool
	// elsewhere reports whether a manager is active that is not a Deployment of this cluster, unsure whether that is
	// unknown.
	elsewhere, unsure bool
	settings          settings
	agent             *appsv1.DaemonSet
	// ours and foreign report whether there are CRDs of Everynode, and of another project; hidden whether one
	// cannot be read.
	ours, foreign, hidden bool
	// unhooked reports whether there are no webhooks of the dialect kruise, and it is not known whether the manager serves it.
	unhooked bool
	// mayNotHold reports whether the manager shall hold nodes, and lacks the right for it.
	mayNotHold bool
}

// servesKruise reports whether the manager serves the dialect kruise, as far as can be determined.
func (p *installation) servesKruise() bool {
	return p.settings.serves(dialects.Kruise) || p.manager == nil && p.present && p.ours
}

// servedUnknown returns a finding if it is unknown whether the manager serves the dialect kruise.
func (p *installation) servedUnknown() []Finding {
	if p.manager != nil || !p.present || !p.hidden {
		return nil
	}
	return []Finding{{Result: Skipped, Says: "whether Advanced DaemonSets are served here is not known"}}
}

// check checks one part of the installation.
type check struct {
	name string
	look func(ctx context.Context) []Finding
}

func (p *installation) checks() []check {
	switch {
	case p.leaving:
		return p.beforeUninstall()
	case p.coming:
		return p.beforeInstall()
	case p.inside:
		return p.insideChecks()
	}
	return []check{
		{"cluster", p.cluster},
		{"manager", p.managers},
		{"leader", p.leader},
		{"settings", p.readSettings},
		{"definitions", p.definitions},
		{"webhooks", p.webhooks},
		{"certificate", p.certificate},
		{"rights", p.rights},
		{"agents", p.checkAgents},
		{"flows", p.flows},
		{"policies", p.policies},
		{"versions", p.versions},
		{"rivals", p.otherControllers},
		{"held-nodes", p.forgottenNodes},
		{"leave-last", p.leaveLast},
	}
}

func (p *installation) run(ctx context.Context) error {
	clients, err := p.o.Clients()
	if err != nil {
		return err
	}
	p.c = clients
	findings := p.findings(ctx)
	if err := p.o.Print(findings, func(w io.Writer) error { return p.table(w, findings) }); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(findings, func(f Finding) bool { return f.last }):
		return errors.New("the cluster cannot be reached, so no further checks are possible")
	case p.leaving:
		return mayUninstall(findings)
	case p.coming:
		return mayInstall(findings)
	case hasFailed(findings):
		return errors.New("at least one check failed")
	}
	return nil
}

// findings runs all checks, as long as the API server answers.
func (p *installation) findings(ctx context.Context) []Finding {
	findings := []Finding{}
	for _, check := range p.checks() {
		for _, f := range check.look(ctx) {
			f.Check = check.name
			findings = append(findings, f)
			if f.last {
				return findings
			}
		}
	}
	return findings
}

func (p *installation) table(w io.Writer, findings []Finding) error {
	counts := map[Result]int{}
	for _, f := range findings {
		counts[f.Result]++
		if _, err := fmt.Fprintf(w, "%s %-12s %s\n", p.mark(f.Result), f.Check, options.Printable(f.Says)); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		if f.Do == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%8s %12s to do: %s\n", "", "", options.Printable(f.Do)); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	_, err := fmt.Fprintf(w, "\n%d ok, %s, %d failed, %d skipped\n", counts[OK], view.Plural(counts[Warning], "warning"), counts[Failed], counts[Skipped])
	return err
}

// mark returns the result with its colour.
func (p *installation) mark(r Result) string {
	text := fmt.Sprintf("%-8s", r)
	if !p.o.Colour() {
		return text
	}
	colour := map[Result]string{OK: "32", Warning: "33", Failed: "31", Skipped: "2"}[r]
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func ok(format string, args ...any) Finding {
	return Finding{Result: OK, Says: fmt.Sprintf(format, args...)}
}

func warning(do, format string, args ...any) Finding {
	return Finding{Result: Warning, Says: fmt.Sprintf(format, args...), Do: do}
}

func failed(do, format string, args ...any) Finding {
	return Finding{Result: Failed, Says: fmt.Sprintf(format, args...), Do: do}
}

// unreadable is the finding for a failed read: a missing right, or a connection problem.
func unreadable(err error, r options.Request) Finding {
	err = options.Explain(err, r)
	if apierrors.IsForbidden(err) {
		return Finding{Result: Skipped, Says: err.Error()}
	}
	f := failed("run the command again, and check that kubectl reaches the cluster", "%v", err)
	f.last = apierrors.IsUnauthorized(err) || unreachable(err)
	return f
}

// unreachable reports whether there is no connection to the API server, so that other requests would fail too.
func unreachable(err error) bool {
	var broken *net.OpError
	return utilnet.IsConnectionRefused(err) || errors.As(err, &broken) && broken.Op == "dial"
}
