// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/view"
)

// flow is a FlowSchema of Everynode, and the namespace of its service account.
type flow struct{ name, namespace, file string }

// flows checks whether flow schemas separate the requests of Everynode from those of other clients.
func (p *installation) flows(ctx context.Context) []Finding {
	var all []flow
	if p.manager != nil {
		const file = "config/install/20-flow-control.yaml"
		all = append(all, flow{managerName, p.namespace, file}, flow{managerName + "-leader-election", p.namespace, file})
	}
	if p.agent != nil {
		all = append(all, flow{"everynode-agents", p.agents, "config/agent/15-flow-control.yaml"})
	}
	var findings []Finding
	for _, f := range all {
		if found := p.flow(ctx, f); found.Result != OK {
			findings = append(findings, found)
		}
	}
	if len(all) > 0 && len(findings) == 0 {
		return []Finding{ok("the API server has %s for Everynode", view.Plural(len(all), "flow schema"))}
	}
	return findings
}

func (p *installation) flow(ctx context.Context, f flow) Finding {
	s, err := p.c.Kubernetes.FlowcontrolV1().FlowSchemas().Get(ctx, f.name, metav1.GetOptions{})
	apply := "kubectl apply -f " + f.file + ", or flowControl: true in the values of the chart"
	switch {
	case apierrors.IsNotFound(err):
		return warning(apply, "there is no FlowSchema %s: a large rollout and other clients of the API server can throttle each other", f.name)
	case err != nil:
		return unreadable(err, options.Request{Verb: "get", Resource: schema.GroupResource{Group: flowcontrolv1.GroupName, Resource: "flowschemas"}, Name: f.name})
	case dangling(s):
		return failed(apply, "the FlowSchema %s has no effect: there is no PriorityLevelConfiguration %s", f.name, s.Spec.PriorityLevelConfiguration.Name)
	case !about(s, f.namespace):
		return warning(fmt.Sprintf("add the namespace %s to its subjects", f.namespace), "the FlowSchema %s matches no service account of namespace %s", f.name, f.namespace)
	default:
		return Finding{Result: OK}
	}
}

// dangling reports whether the priority level is missing according to the API server.
func dangling(s *flowcontrolv1.FlowSchema) bool {
	return slices.ContainsFunc(s.Status.Conditions, func(c flowcontrolv1.FlowSchemaCondition) bool {
		return c.Type == flowcontrolv1.FlowSchemaConditionDangling && c.Status == flowcontrolv1.ConditionTrue
	})
}

func about(s *flowcontrolv1.FlowSchema, namespace string) bool {
	return slices.ContainsFunc(s.Spec.Rules, func(r flowcontrolv1.PolicyRulesWithSubjects) bool {
		return slices.ContainsFunc(r.Subjects, func(s flowcontrolv1.Subject) bool {
			return s.ServiceAccount != nil && s.ServiceAccount.Namespace == namespace
		})
	})
}

// guard is a ValidatingAdmissionPolicy of Everynode with a binding of the same name, and the risk without it.
type guard struct{ name, remedy, without string }

// policies checks whether the admission policies of Everynode are in effect.
func (p *installation) policies(ctx context.Context) []Finding {
	if !p.present {
		return nil
	}
	findings := []Finding{p.policy(ctx, guard{
		"everynode-delete-protection", "kubectl apply -f config/install/30-delete-protection.yaml, or deleteProtection: true in the values of the chart",
		"the label policy.kruise.io/delete-protection protects nothing",
	}), p.policy(ctx, guard{
		"everynode-rollout-approvals", "kubectl apply -f config/policy/20-approvals.yaml, or upgrade the chart",
		"a RolloutApproval can name a user who has not created it",
	})}
	if p.agent == nil {
		return findings
	}
	own := p.policy(ctx, guard{
		"everynode-agent-own-node", "kubectl apply -f config/agent/20-policy.yaml, or upgrade the chart", "an agent on a compromised node can change objects of all other nodes",
	})
	if own.Result == Warning {
		own.Result = Failed // this policy is not optional
	}
	return append(findings, own)
}

func (p *installation) policy(ctx context.Context, g guard) Finding {
	admission := p.c.Kubernetes.AdmissionregistrationV1()
	request := options.Request{Verb: "get", Resource: schema.GroupResource{Group: admissionv1.GroupName, Resource: "validatingadmissionpolicies"}, Name: g.name}
	_, err := admission.ValidatingAdmissionPolicies().Get(ctx, g.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return warning(g.remedy, "there is no ValidatingAdmissionPolicy %s: %s", g.name, g.without)
	}
	if err != nil {
		return unreadable(err, request)
	}
	binding, err := admission.ValidatingAdmissionPolicyBindings().Get(ctx, g.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return warning(g.remedy, "the ValidatingAdmissionPolicy %s has no binding with the same name: %s", g.name, g.without)
	case err != nil:
		request.Resource.Resource = "validatingadmissionpolicybindings"
		return unreadable(err, request)
	case binding.Spec.PolicyName != g.name || !slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny):
		return warning(g.remedy, "the ValidatingAdmissionPolicyBinding %s denies no requests: %s", g.name, g.without)
	default:
		return ok("the policy %s is bound and denies requests", g.name)
	}
}
