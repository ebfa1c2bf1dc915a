// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kruisedialect "everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/test/harness"
)

// rejection is a fragment and what the refusal of it says.
type rejection struct {
	fragment string
	texts    []string
}

// rejectScenarios are about what cannot be honoured.
func rejectScenarios() []scenario {
	return []scenario{
		{"reject-selectors", 1, false, rejectAll(selectorRejections())},
		{"reject-budgets", 1, true, rejectAll(budgetRejections())},
		{"reject-numbers", 1, false, rejectAll(numberRejections())},
		{"reject-hooks", 1, false, rejectAll(hookRejections())},
		{"reject-annotations", 1, false, rejectAll(annotationRejections())},
		{"reject-templates", 1, false, rejectAll(templateRejections())},
		{"reject-in-v1alpha1", 1, false, rejectInAlpha},
		{"reject-at-creation", 1, false, rejectAtCreation},
		{"invalid-without-webhooks", 2, false, invalidWithoutWebhooks},
	}
}

// rejectAll shows that a running set refuses changes, one after the other, and is none the worse for it.
func rejectAll(rejections []rejection) func(s *stage) {
	return func(s *stage) {
		s.run()
		generation, before := s.generation(), s.uids()
		for _, r := range rejections {
			s.refused(r.fragment, r.texts...)
		}
		if now := s.generation(); now != generation {
			s.t.Errorf("generation %d has become %d", generation, now)
		}
		s.samePods(before)
	}
}

const inRolling = "spec.updateStrategy.rollingUpdate."

func selectorRejections() []rejection {
	return []rejection{
		{"spec: {selector: {matchLabels: {more: label}}, template: {metadata: {labels: {more: label}}}}",
			[]string{"updates to daemonset spec for fields other than", "'scaleStrategy'", "field is immutable"}},
		{"spec: {selector: {matchLabels: {app: null}}}", []string{"spec.selector", "field is immutable"}},
		{"spec: {template: {metadata: {labels: {app: other}}}}", []string{"`selector` does not match template `labels`"}},
		{rolling("selector: {matchExpressions: [{key: a, operator: Like, values: [b]}]}"),
			[]string{inRolling + "selector.matchExpressions[0].operator", "not a valid selector operator"}},
		{rolling("selector: {matchLabels: {'a b': c}}"), []string{inRolling + "selector.matchLabels"}},
	}
}

func budgetRejections() []rejection {
	return []rejection{
		{rolling("maxUnavailable: 1, maxSurge: 1"), []string{inRolling + "maxSurge", "may not be set when maxUnavailable is non-zero"}},
		{rolling("maxUnavailable: 0, maxSurge: 0"), []string{inRolling + "maxUnavailable", "cannot be 0 when maxSurge is 0"}},
		{rolling("maxUnavailable: 101%"), []string{inRolling + "maxUnavailable", "must not be greater than 100%"}},
		{rolling("maxUnavailable: some"), []string{inRolling + "maxUnavailable", "a valid percent string"}},
		{rolling("maxUnavailable: -1"), []string{inRolling + "maxUnavailable", "must be greater than or equal to 0"}},
		{rolling("maxUnavailable: 0, maxSurge: 1, rollingUpdateType: InPlaceIfPossible"),
			[]string{inRolling + "maxSurge", "must be 0 for InPlaceIfPossible type"}},
		{rolling("rollingUpdateType: Surging"), []string{inRolling + "rollingUpdateType", `Unsupported value: "Surging"`}},
		{"spec: {updateStrategy: {type: Recreate}}", []string{"spec.updateStrategy.type", `Unsupported value: "Recreate"`}},
		{rolling("partition: 101%"), []string{inRolling + "partition", "must not be greater than 100%"}},
		{rolling("partition: -1"), []string{inRolling + "partition"}},
	}
}

func numberRejections() []rejection {
	return []rejection{
		{"spec: {burstReplicas: 0}", []string{"spec.burstReplicas", "or no pod would ever be created or deleted"}},
		{"spec: {burstReplicas: 0%}", []string{"spec.burstReplicas"}},
		{"spec: {burstReplicas: many}", []string{"spec.burstReplicas", "a valid percent string"}},
		{"spec: {minReadySeconds: -1}", []string{"spec.minReadySeconds", "must be greater than or equal to 0"}},
		{"spec: {revisionHistoryLimit: -1}", []string{"spec.revisionHistoryLimit", "must be greater than or equal to 0"}},
	}
}

func hookRejections() []rejection {
	return []rejection{
		{"spec: {lifecycle: {inPlaceUpdate: {labelsHandler: {a: b}}}}", []string{"spec.lifecycle.inPlaceUpdate", "inPlaceUpdate hook has not supported yet"}},
		{"spec: {lifecycle: {preNormal: {labelsHandler: {a: b}}}}", []string{"spec.lifecycle.preNormal", "preNormal hook has not supported yet"}},
		{"spec: {lifecycle: {preDelete: {finalizersHandler: [blocker]}}}", []string{"spec.lifecycle.preDelete.finalizersHandler[0]", "fully qualified"}},
		{"spec: {lifecycle: {preDelete: {finalizersHandler: [a.io/b, a.io/b]}}}", []string{"finalizersHandler[1]", "Duplicate value"}},
		{"spec: {lifecycle: {preDelete: {labelsHandler: {'a b': c}}}}", []string{"spec.lifecycle.preDelete.labelsHandler"}},
		{"spec: {lifecycle: {preDelete: {markPodNotReady: true}}}", []string{"spec.lifecycle.preDelete.markPodNotReady", "has no effect without"}},
	}
}

func annotationRejections() []rejection {
	var all []rejection
	for key, value := range map[string]string{
		"daemonset.kruise.io/progressive-create-pod":              "yes",
		"apps.kruise.io/image-predownload-parallelism":            "10%",
		"apps.kruise.io/image-predownload-timeout-seconds":        "5m",
		"apps.kruise.io/image-predownload-min-updated-ready-pods": "some",
		"deprecated.daemonset.template.generation":                "x",
		"everynode.dev/in-place-grace-seconds":                    "10s",
		"everynode.dev/max-replacing":                             "0",
	} {
		all = append(all, rejection{fmt.Sprintf("metadata: {annotations: {%q: %q}}", key, value), []string{"metadata.annotations[" + key + "]", "must be"}})
	}
	return append(all, rejection{`{metadata: {annotations: {daemonset.kruise.io/progressive-create-pod: "true"}}, spec: {scaleStrategy: {partitionedScaling: false}}}`,
		[]string{"spec.scaleStrategy.partitionedScaling", "contradicts the annotation"}})
}

func templateRejections() []rejection {
	return []rejection{
		{"spec: {template: {spec: {restartPolicy: Never}}}", []string{"spec.template.spec.restartPolicy", "Unsupported value"}},
		{"spec: {template: {spec: {activeDeadlineSeconds: 5}}}", []string{"activeDeadlineSeconds in DaemonSet is not Supported"}},
		{"spec: {template: {spec: {containers: [{name: agent, image: a, imagePolicy: Always}]}}}",
			[]string{"spec.template.spec.containers[0].imagePolicy", "unknown field"}},
		{"spec: {template: {spec: {containers: [{name: Agent, image: a}]}}}", []string{"spec.template.spec.containers[0].name"}},
		{"spec: {template: {spec: {containers: []}}}", []string{"spec.template.spec.containers", "Required value"}},
		{"spec: {template: {spec: {containers: agent}}}", []string{"spec.template", "containers"}},
		{"spec: {template: {spec: {containers: [{name: agent, image: a, volumeMounts: [{name: none, mountPath: /none}]}]}}}",
			[]string{"spec.template.spec.containers[0].volumeMounts[0].name"}},
	}
}

func rejectInAlpha(s *stage) {
	s.run(alpha)
	s.refused(rolling("rollingUpdateType: Surging, maxUnavailable: 1"), inRolling+"maxUnavailable", "must be 0 for Surging type")
	s.refused(rolling("rollingUpdateType: Often"), inRolling+"rollingUpdateType", `Unsupported value: "Often"`)
	s.refused("spec: {selector: {matchLabels: {more: label}}, template: {metadata: {labels: {more: label}}}}", "updates to daemonset spec for fields other than")
}

func rejectAtCreation(s *stage) {
	s.refused("spec: {updateStrategy: {rollingUpdate: {type: InPlaceIfPossible}}}", "rollingUpdate.type")
	s.refused("spec: {template: null}", "template")
	s.refused("spec: {selector: null}", "selector")
	if s.set() != nil {
		s.t.Error("a set was created all the same")
	}
	s.run()
}

// invalidWithoutWebhooks: what becomes invalid while no webhook looks is reported, and nothing is deleted.
func invalidWithoutWebhooks(s *stage) {
	s.run()
	before := s.uids()
	s.exempt()
	s.Kubectl("patch", "ads", "agent", "--type=merge", "-p",
		`{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":"lots"}},"template":{"metadata":{"annotations":{"changed":"true"}}}}}`)
	s.Wait("the set is said to be invalid", func(v harness.View) error {
		if c := v.ConditionOf("agent", kruisedialect.Degraded); c == nil || c.Status != corev1.ConditionTrue || c.Reason != "InvalidSpec" {
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	})
	s.wantOutput(s.View().ConditionOf("agent", kruisedialect.Degraded).Message, inRolling+"maxUnavailable")
	s.samePods(before)
	s.Kubectl("patch", "ads", "agent", "--type=merge", "-p", `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":1}}}}`)
	s.rolled(harness.ConditionIs("agent", kruisedialect.Degraded, corev1.ConditionFalse, kruisedialect.ReasonAsExpected))
	s.otherPods(before)
}

// exempt keeps the webhooks from this namespace, as if they were down and ignored.
func (s *stage) exempt() {
	s.t.Helper()
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/webhooks/0/namespaceSelector", "value": metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{s.Name}},
		},
	}}})
	if err != nil {
		s.t.Fatal(err)
	}
	admission := s.Cluster.Client.AdmissionregistrationV1()
	_, err = admission.MutatingWebhookConfigurations().Patch(s.Context(), "everynode-mutating", types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		s.t.Fatalf("exempting namespace %s: %v", s.Name, err)
	}
	_, err = admission.ValidatingWebhookConfigurations().Patch(s.Context(), "everynode-validating", types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		s.t.Fatalf("exempting namespace %s: %v", s.Name, err)
	}
}
