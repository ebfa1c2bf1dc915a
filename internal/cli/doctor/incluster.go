// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/everynode"
	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/dialects"
)

// InCluster is the name of the command that checks an installation from a pod with the account of the manager: helm test runs it.
const InCluster = "check-install"

// A check may fail while managers start, so failed checks are made again: tries times, with a pause in between.
const (
	tries = 10
	pause = 3 * time.Second
)

// NewInCluster returns the command that checks an installation with the rights of the manager itself. The Deployment cannot be read with them, so
// the settings are flags.
func NewInCluster(o *options.Options) *cobra.Command {
	p := &installation{o: o, inside: true, present: true}
	cmd := &cobra.Command{
		Use:         InCluster,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "everynode-manager " + InCluster},
		Short:       "Checks an installation, with the account of the manager.",
		Long: "everynode-manager check-install is what helm test runs. It checks whether a leader renews its lease, whether the definitions\n" +
			"are served, whether the webhooks reject an invalid object in a dry run, when their certificate ends, whether the account has all rights\n" +
			"of the manager, whether the agents are ready, and whether another controller does the same work. It exits with 1 if a check still fails\n" +
			"after half a minute.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return options.Usagef("unexpected argument %q: everything is given by flags", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return p.checkInside(cmd.Context()) },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return options.Usagef("%w", err) })
	fs := cmd.Flags()
	fs.StringVar(&p.namespace, "manager-namespace", everynode.Namespace, "The namespace of the manager.")
	fs.StringVar(&p.agents, "agent-namespace", "", "The namespace of the agents. Without it, agents are not checked.")
	fs.StringSliceVar(&p.settings.dialects, "dialects", dialects.Defaults(), "The dialects that the manager serves.")
	return cmd
}

func (p *installation) checkInside(ctx context.Context) error {
	clients, err := p.o.Clients()
	if err != nil {
		return err
	}
	p.c = clients
	findings := p.repeated(ctx)
	if err := p.o.Print(findings, func(w io.Writer) error { return p.table(w, findings) }); err != nil {
		return err
	}
	if hasFailed(findings) {
		return errors.New("at least one check failed")
	}
	return nil
}

func hasFailed(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Result == Failed })
}

// repeated runs all checks until none fails, but not for ever. It returns the last findings.
func (p *installation) repeated(ctx context.Context) []Finding {
	for try := 1; ; try++ {
		fresh := *p // checks keep what they have found
		fresh.settings.dialects = slices.Clone(p.settings.dialects)
		findings := fresh.findings(ctx)
		if !hasFailed(findings) || try == tries {
			return findings
		}
		select {
		case <-ctx.Done():
			return findings
		case <-p.o.After(pause):
		}
	}
}

// insideChecks returns the checks that the rights of the manager allow.
func (p *installation) insideChecks() []check {
	checks := []check{{"cluster", p.cluster}, {"leader", p.leader}, {"definitions", p.servedPolicies}}
	if p.servesKruise() {
		checks = append(checks, check{"definitions", p.definitions}, check{"webhooks", p.webhooks}, check{"webhooks", p.answers}, check{"certificate", p.certificate})
	}
	checks = append(checks, check{"rights", p.rights})
	if p.agents != "" {
		checks = append(checks, check{"agents", p.checkAgents})
	}
	return append(checks, check{"rivals", p.otherControllers})
}

// servedPolicies checks whether the API server serves the definitions of rollout policies.
func (p *installation) servedPolicies(context.Context) []Finding {
	name := policies.Resource().GroupResource().String()
	if !resolver.Served(p.c, policies.Resource()) {
		return []Finding{failed("kubectl describe crd "+name, "%s is not served by the API server", name)}
	}
	return []Finding{ok("%s is served", name)}
}

// answers checks whether a webhook rejects an object that is not valid. The definition would accept it, and a dry run stores nothing.
func (p *installation) answers(ctx context.Context) []Finding {
	resource := schema.GroupVersionResource{Group: kruiseapi.Group, Version: kruiseapi.VersionStored, Resource: kruiseapi.ResourceJob}
	job := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kruiseapi.KindJob,
		"metadata": map[string]any{"name": "everynode-" + InCluster}, "spec": map[string]any{"image": ":"},
	}}
	_, err := p.c.Dynamic.Resource(resource).Namespace(p.namespace).Create(ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	where := fmt.Sprintf("check the Service %s/%s, network policies, and the log of the manager: %s", p.namespace, service, p.logs())
	switch {
	case apierrors.IsInvalid(err):
		return []Finding{ok("the webhooks answer: an invalid ImagePullJob is rejected")}
	case err == nil:
		return []Finding{failed(applyKruise, "an invalid ImagePullJob is accepted, so no webhook validates it")}
	default:
		return []Finding{failed(where, "the webhooks do not answer: %v", err)}
	}
}
