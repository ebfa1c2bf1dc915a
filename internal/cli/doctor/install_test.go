// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// controllerManager is a kube-controller-manager in a pod.
func controllerManager(name string, flags ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name, Labels: map[string]string{"component": "kube-controller-manager"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "kube-controller-manager", Command: append([]string{"kube-controller-manager"}, flags...)}}},
	}
}

// foreignDefinition is a definition of OpenKruise.
func foreignDefinition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "daemonsets.apps.kruise.io"},
	}}
}

// otherHooks are webhooks of another project, which must answer when such an object is created.
func otherHooks(name, service, group, resource string) *admissionv1.MutatingWebhookConfiguration {
	fail := admissionv1.Fail
	return &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionv1.MutatingWebhook{{
		Name: name + ".example", FailurePolicy: &fail, ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "other", Name: service}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
		}},
	}}}
}

// inNamespaces lets webhooks be asked only about objects in namespaces.
func inNamespaces(c *admissionv1.MutatingWebhookConfiguration) *admissionv1.MutatingWebhookConfiguration {
	scope := admissionv1.NamespacedScope
	c.Webhooks[0].Rules[0].Scope = &scope
	return c
}

// elsewhere lets webhooks be asked only in some namespaces.
func elsewhere(c *admissionv1.MutatingWebhookConfiguration, operator metav1.LabelSelectorOperator, namespaces ...string) *admissionv1.MutatingWebhookConfiguration {
	c.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: operator, Values: namespaces}}}
	return c
}

// labelled lets webhooks be asked only about objects with such a label.
func labelled(c *admissionv1.MutatingWebhookConfiguration, operator metav1.LabelSelectorOperator, key string, values ...string) *admissionv1.MutatingWebhookConfiguration {
	c.Webhooks[0].ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	return c
}

// behind is the endpoint of a Service.
func behind(service string, ready bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
}

func TestBeforeInstall(t *testing.T) {
	const first = "do not install yet: first do what is listed above"
	off := "--controllers=*,-daemonset"
	for name, c := range map[string]struct {
		objects []runtime.Object
		refuse  bool
		hidden  string // a resource that cannot be read
		want    string
	}{
		"install-managed":    {},
		"install-native-on":  {objects: []runtime.Object{controllerManager("kcm-1", "--controllers=*,bootstrapsigner")}},
		"install-elsewhere":  {objects: []runtime.Object{lease("past", "everynode-manager", "b", fakecluster.Now().Add(-time.Hour)), lease("here", "everynode-manager", "a", fakecluster.Now())}},
		"install-native-off": {objects: []runtime.Object{controllerManager("kcm-1", off), controllerManager("kcm-2", off)}},
		"install-mixed":      {objects: []runtime.Object{controllerManager("kcm-1", off), controllerManager("kcm-2")}, want: first},
		"install-kruise":     {objects: []runtime.Object{foreignDefinition()}},
		"install-no-rights":  {refuse: true, want: first},
		// As long as it is not known whether OpenKruise is there, the advice is not to serve its dialect.
		"install-unseen-definitions": {hidden: "customresourcedefinitions", objects: []runtime.Object{foreignDefinition()}},
		"install-unseen-managers":    {hidden: "leases"},
		"install-unseen-webhooks":    {hidden: "mutatingwebhookconfigurations"},
		"install-webhooks": {
			objects: []runtime.Object{
				otherHooks("kruise-mutating-webhook-configuration", "kruise", "apps.kruise.io", "*"), otherHooks("injector", "mesh", "", "pods"), otherHooks("scanner", "scan", "*", "*/*"),
				otherHooks("jobs", "nothing", "batch", "jobs"), behind("kruise", true), behind("mesh", false), behind("scan", true),
			},
			want: first,
		},
		// Kyverno and others leave out namespaces. What they refuse elsewhere is not about the installation.
		"install-webhooks-elsewhere": {objects: []runtime.Object{
			elsewhere(inNamespaces(otherHooks("policies", "engine", "*", "*")), metav1.LabelSelectorOpNotIn, "everynode-system", "everynode-agents", "kruise-daemon-config"),
			elsewhere(otherHooks("tenants", "tenant", "", "pods"), metav1.LabelSelectorOpIn, "tenant"),
		}},
		// But that is about objects in namespaces: the webhook is asked about all others.
		"install-webhooks-cluster": {want: first, objects: []runtime.Object{
			elsewhere(otherHooks("policies", "engine", "*", "*"), metav1.LabelSelectorOpNotIn, "everynode-system", "everynode-agents", "kruise-daemon-config"),
		}},
		// Istio's injector, for pods that ask for it. What leaves objects with a label out is asked about those without.
		"install-webhooks-opt-in": {objects: []runtime.Object{
			labelled(otherHooks("injector", "mesh", "", "pods"), metav1.LabelSelectorOpIn, "sidecar.istio.io/inject", "true"),
		}},
		"install-webhooks-opt-out": {want: first, objects: []runtime.Object{
			labelled(otherHooks("injector", "mesh", "", "pods"), metav1.LabelSelectorOpNotIn, "sidecar.istio.io/inject", "false"),
		}},
		"install-webhooks-own-label": {want: first, objects: []runtime.Object{
			labelled(otherHooks("charts", "charts", "*", "*"), metav1.LabelSelectorOpIn, "app.kubernetes.io/managed-by", "Helm"),
		}},
		"install-webhooks-unseen-namespaces": {want: first, hidden: "namespaces", objects: []runtime.Object{
			elsewhere(otherHooks("policies", "engine", "*", "*"), metav1.LabelSelectorOpIn, "tenant"),
		}},
		"install-webhooks-agents": {want: first, objects: []runtime.Object{
			elsewhere(otherHooks("policies", "engine", "*", "*"), metav1.LabelSelectorOpNotIn, "everynode-system"),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fakecluster.New(t, c.objects...)
			cluster.Kubernetes.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
				review.Status.Allowed = !c.refuse
				return true, review, nil
			})
			no := func(a clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", errors.New("no rule allows it"))
			}
			if c.hidden != "" {
				cluster.Kubernetes.PrependReactor("*", c.hidden, no)
				cluster.Dynamic.PrependReactor("*", c.hidden, no)
			}
			err := cluster.Run(t, doctor.New, "--before-install")
			if (err == nil) != (c.want == "") || err != nil && (options.Code(err) != options.ExitError || err.Error() != c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			fakecluster.Golden(t, *update, name+".txt", cluster.Out.String())
		})
	}
}

// TestBeforeInstallAndUninstall: one of them at a time.
func TestBeforeInstallAndUninstall(t *testing.T) {
	if err := fakecluster.New(t).Run(t, doctor.New, "--before-install", "--before-uninstall"); err == nil {
		t.Error("both flags are accepted")
	}
}
