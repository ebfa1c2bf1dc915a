// SPDX-License-Identifier: Apache-2.0

// Package doctor is the verb that looks an installation over: what is there, whether it works, and what to do where it does not.
//
// A check reads with the rights of who calls, changes nothing, and ends in findings: ok, warning, failed, or skipped where a right is missing.
// A finding that is not ok says what to do.
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
	"everynode.dev/everynode/internal/dialects"
)

// Result is how a check ended.
type Result string

// The results.
const (
	OK      Result = "ok"
	Warning Result = "warning"
	Failed  Result = "failed"
	Skipped Result = "skipped" // who calls may not look
)

// Finding is what a check has found.
type Finding struct {
	Check  string `json:"check"`
	Result Result `json:"result"`
	Says   string `json:"says"`
	// Do is what to do about it.
	Do string `json:"do,omitempty"`
	// last is whether nothing else can be found out: all other checks would say the same.
	last bool
}

const long = `Check an installation of Everynode: the managers and their leader, the dialects and feature gates, the definitions of the Advanced
DaemonSet, the webhooks and their certificate, the rights of the manager, the agents of the nodes, flow schemas and policies,
whether the versions match, and whether another controller does the same work.

It reads with your own rights and changes nothing. Checks that you have no right for are skipped, and the missing right is named. Where
nothing is installed, it reports that; the verbs that only read work there too.

With --before-uninstall it checks only for work that would stay unfinished without a manager: pods that are being changed in place, which
get no traffic until the change has finished, and objects that are stored in a version that the manager must convert. While there are any,
or while a check cannot be made, it exits with 1 and prints what to do first.

` + options.ExitText + `
A check that failed also exits with 1.`

const example = `  # All checks
  kubectl everynode doctor

  # An installation in a namespace of its own
  kubectl everynode doctor --manager-namespace edge-system

  # Whether the manager can be uninstalled, or scaled to zero
  kubectl everynode doctor --before-uninstall

  # What has failed, for a script
  kubectl everynode doctor -o json | jq '.[] | select(.result == "failed")'`

// agentNamespace is where the agents are installed.
const agentNamespace = "everynode-agents"

// New is the verb.
func New(o *options.Options) *cobra.Command {
	p := &installation{o: o}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check an installation of Everynode", Long: long, Example: example,
		Args: options.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&p.namespace, "manager-namespace", everynode.Namespace, "The namespace of the manager.")
	cmd.Flags().StringVar(&p.agents, "agent-namespace", agentNamespace, "The namespace of the agents.")
	cmd.Flags().BoolVar(&p.leaving, "before-uninstall", false, "Check only what must be done before Everynode is uninstalled, or its manager is scaled to zero.")
	return cmd
}

// installation is an installation, as far as it is known.
type installation struct {
	o                 *options.Options
	c                 *options.Clients
	namespace, agents string
	// leaving is whether Everynode is to be uninstalled.
	leaving bool

	// manager is nil where there is no Deployment, or where it may not be read.
	manager *appsv1.Deployment
	// led is whether somebody holds the lease of the manager, and present whether Everynode is at work here, as far as can be seen.
	led, present bool
	// elsewhere is whether a manager is at work that is no Deployment of this cluster, and unsure whether nobody can tell if there is one.
	elsewhere, unsure bool
	settings          settings
	agent             *appsv1.DaemonSet
	// ours and foreign are whether there are definitions of Everynode, and of somebody else, and hidden whether one may not be read.
	ours, foreign, hidden bool
}

// servesKruise is whether the dialect of OpenKruise is served, as far as can be seen.
func (p *installation) servesKruise() bool {
	return p.settings.serves(dialects.Kruise) || p.manager == nil && p.present && p.ours
}

// servedUnknown says where nobody can tell whether the dialect of OpenKruise is served.
func (p *installation) servedUnknown() []Finding {
	if p.manager != nil || !p.present || !p.hidden {
		return nil
	}
	return []Finding{{Result: Skipped, Says: "whether Advanced DaemonSets are served here is not known"}}
}

// check looks at one thing.
type check struct {
	name string
	look func(ctx context.Context) []Finding
}

func (p *installation) checks() []check {
	if p.leaving {
		return p.beforeUninstall()
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
	case slices.ContainsFunc(findings, func(f Finding) bool { return f.Result == Failed }):
		return errors.New("at least one check failed")
	}
	return nil
}

// findings are those of all checks, as long as the API server answers.
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
	_, err := fmt.Fprintf(w, "\n%d ok, %s, %d failed, %d skipped\n", counts[OK], plural(counts[Warning], "warning"), counts[Failed], counts[Skipped])
	return err
}

// mark is the result in a column of its own, in its colour.
func (p *installation) mark(r Result) string {
	text := fmt.Sprintf("%-8s", r)
	if !p.o.Colour() {
		return text
	}
	colour := map[Result]string{OK: "32", Warning: "33", Failed: "31", Skipped: "2"}[r]
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
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

// unreadable is a check that could not be made: for want of a right, or because something is wrong with the way to the cluster.
func unreadable(err error, r options.Request) Finding {
	err = options.Explain(err, r)
	if apierrors.IsForbidden(err) {
		return Finding{Result: Skipped, Says: err.Error()}
	}
	f := failed("run the command again, and check that kubectl reaches the cluster", "%v", err)
	f.last = apierrors.IsUnauthorized(err) || unreachable(err)
	return f
}

// unreachable is whether there is no connection to the API server, which other requests would not get either.
func unreachable(err error) bool {
	var broken *net.OpError
	return utilnet.IsConnectionRefused(err) || errors.As(err, &broken) && broken.Op == "dial"
}
