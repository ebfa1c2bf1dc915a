// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"embed"
	"encoding/pem"
	"errors"
	"flag"
	"math/big"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/config"
	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

const system = "everynode-system"

// installation is Everynode in a cluster, and what may be wrong with it.
type installation struct {
	args            []string
	image           string
	replicas, ready int32
	agents          int32
	certificate     []byte
	labelled        bool
	renewed         time.Time
	observed        int64
	others          []runtime.Object
	// guards are the flow schemas and policies.
	guards []runtime.Object
	// url is where the webhooks are reached, without a Service.
	url string
	// theirs are the definitions that are not Everynode's, while others are.
	theirs []string
	// unserved are the definitions of which the API server serves no v1beta1.
	unserved []string
	// agentsOnly is whether only the definition of what agents do is there, as with the chart and without kruise.
	agentsOnly bool
}

func healthy(t *testing.T) installation {
	return installation{
		args: []string{"--dialects=native,kruise"}, image: "registry.example/everynode/manager:v0.0.0-test", replicas: 2, ready: 2, agents: 3,
		certificate: certificate(t, fakecluster.Now().Add(200*24*time.Hour)), labelled: true, renewed: fakecluster.Now().Add(-2 * time.Second), guards: guards(t),
	}
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func lease(namespace, name, holder string, renewed time.Time) *coordinationv1.Lease {
	seconds, at := int32(10), metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{ObjectMeta: named(namespace, name), Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at}}
}

func (i installation) definition(resource string) *unstructured.Unstructured {
	labels := map[string]any{}
	if i.labelled && !slices.Contains(i.theirs, resource) {
		labels["everynode.dev/part-of"] = "everynode"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": resource + ".apps.kruise.io", "labels": labels},
		"spec":     map[string]any{"versions": []any{map[string]any{"name": "v1beta1", "served": !slices.Contains(i.unserved, resource)}}},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}, "storedVersions": []any{"v1beta1"}},
	}}
}

func (i installation) objects() []runtime.Object {
	pod := corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: "everynode-manager", Containers: []corev1.Container{{Name: "manager", Image: i.image, Args: i.args}}}}
	agents := appsv1.DaemonSet{ObjectMeta: named("everynode-agents", "everynode-agent"), Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, NumberReady: i.agents}}
	agents.Spec.Template.Spec.Containers = []corev1.Container{{Image: "everynode-agent:v0.0.0-test"}}
	probe := named(system, "everynode-probe")
	probe.Generation = 4
	webhooks := admissionv1.WebhookClientConfig{CABundle: i.certificate}
	if i.url != "" {
		webhooks.URL = &i.url
	}
	objects := []runtime.Object{
		&appsv1.Deployment{ObjectMeta: named(system, "everynode-manager"), Spec: appsv1.DeploymentSpec{Replicas: &i.replicas, Template: pod}, Status: appsv1.DeploymentStatus{ReadyReplicas: i.ready}},
		lease(system, "everynode-manager", "manager-7d9f", i.renewed), &agents,
		&appsv1.DaemonSet{ObjectMeta: probe, Status: appsv1.DaemonSetStatus{ObservedGeneration: i.observed}},
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: named("", "everynode-mutating"), Webhooks: []admissionv1.MutatingWebhook{{Name: "a", ClientConfig: webhooks}}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: named("", "everynode-validating"), Webhooks: []admissionv1.ValidatingWebhook{{Name: "a", ClientConfig: webhooks}}},
		i.definition("nodeimages"),
	}
	if !i.agentsOnly {
		objects = append(objects, i.definition("daemonsets"), i.definition("imagepulljobs"))
	}
	if i.ready > 0 {
		endpoints := &discoveryv1.EndpointSlice{ObjectMeta: named(system, "w"), Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}, {Addresses: []string{"10.0.0.2"}}}}
		endpoints.Labels = map[string]string{discoveryv1.LabelServiceName: "everynode-webhook"}
		objects = append(objects, endpoints)
	}
	if len(i.certificate) > 0 {
		objects = append(objects, &corev1.Secret{ObjectMeta: named(system, "everynode-webhook-certs"), Data: map[string][]byte{"tls.crt": i.certificate}})
	}
	return slices.Concat(objects, i.guards, i.others)
}

// guards are the flow schemas and policies that are shipped.
func guards(t *testing.T) []runtime.Object {
	t.Helper()
	var all []runtime.Object
	for _, file := range []struct {
		from embed.FS
		name string
	}{
		{config.Install, "install/20-flow-control.yaml"}, {config.Install, "install/30-delete-protection.yaml"},
		{config.Policy, "policy/20-approvals.yaml"}, {config.Agent, "agent/15-flow-control.yaml"}, {config.Agent, "agent/20-policy.yaml"},
	} {
		data, err := file.from.ReadFile(file.name)
		if err != nil {
			t.Fatal(err)
		}
		for text := range strings.SplitSeq(string(data), "\n---\n") {
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(text), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v", file.name, err)
			}
			all = append(all, object)
		}
	}
	return all
}

// without leaves the guards of these kinds out.
func (i *installation) without(leave func(runtime.Object) bool) {
	i.guards = slices.DeleteFunc(i.guards, leave)
}

// yurtManager is the pod of OpenYurt's manager that leads.
func yurtManager(args ...string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: named("kube-system", "yurt-manager-0"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "yurt-manager", Args: args}}}}
}

// certificate is one that ends then.
func certificate(t *testing.T, end time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	data, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: data})
}

// allow answers who asks what the manager may do.
func allow(c *fakecluster.Cluster, may func(*authorizationv1.ResourceAttributes) bool) {
	c.Kubernetes.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		review.Status.Allowed = may(review.Spec.ResourceAttributes)
		return true, review, nil
	})
}

// forbid refuses who calls everything but what is always allowed.
func forbid(c *fakecluster.Cluster) {
	refuse := func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.GetResource().GroupResource()
		if r.Resource == "version" { // anybody may know that
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(r, "", errors.New("no rule allows it"))
	}
	c.Kubernetes.PrependReactor("*", "*", refuse)
	c.Dynamic.PrependReactor("*", "*", refuse)
}

// takeOut has the manager run outside of the cluster, and no agents.
func takeOut(t *testing.T, c *fakecluster.Cluster) {
	t.Helper()
	for _, err := range []error{
		c.Kubernetes.AppsV1().Deployments(system).Delete(t.Context(), "everynode-manager", metav1.DeleteOptions{}),
		c.Kubernetes.DiscoveryV1().EndpointSlices(system).Delete(t.Context(), "w", metav1.DeleteOptions{}),
		c.Kubernetes.AppsV1().DaemonSets("everynode-agents").Delete(t.Context(), "everynode-agent", metav1.DeleteOptions{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func everything(*authorizationv1.ResourceAttributes) bool { return true }

// heldNode is a node that the manager holds other pods back from.
func heldNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{everynode.HoldTaint()}}}
}

// leavesLast is an Advanced DaemonSet that asks for its pods to leave a node last.
func leavesLast(namespace, name string) *unstructured.Unstructured {
	set := (&fakecluster.Roll{Name: name, Advanced: true}).Object()
	set.SetNamespace(namespace)
	set.SetAnnotations(map[string]string{everynode.LeaveLast: "300"})
	return set
}

func TestScreens(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*installation)
		adjust func(*fakecluster.Cluster)
		line   string
		fails  bool
		says   string // what it says in the end; else that something is wrong
	}{
		"healthy":           {},
		"held-without-flag": {fails: true, change: func(i *installation) { i.others = []runtime.Object{heldNode("node-2"), heldNode("node-1")} }},
		"held-without-manager": {fails: true, change: func(i *installation) { i.replicas, i.others = 0, []runtime.Object{heldNode("node-1")} }, adjust: func(c *fakecluster.Cluster) {
			takeOut(t, c)
			if err := c.Kubernetes.CoordinationV1().Leases(system).Delete(t.Context(), "everynode-manager", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
		"held-with-flag": {change: func(i *installation) {
			i.args, i.others = append(i.args, "--come-back-first-namespaces=agents"), []runtime.Object{heldNode("node-1")}
		}},
		"held-without-right": {fails: true, change: func(i *installation) {
			i.args, i.others = append(i.args, "--come-back-first-namespaces=agents"), []runtime.Object{heldNode("node-1")}
		}, adjust: func(c *fakecluster.Cluster) {
			allow(c, func(a *authorizationv1.ResourceAttributes) bool { return a.Resource != "nodes" || a.Verb != "patch" })
		}},
		"held-without-rights": {fails: true, change: func(i *installation) {
			i.args, i.others = append(i.args, "--come-back-first-namespaces=agents"), []runtime.Object{heldNode("node-1")}
		}, adjust: func(c *fakecluster.Cluster) {
			allow(c, func(a *authorizationv1.ResourceAttributes) bool {
				return (a.Resource != "nodes" || a.Verb != "patch") && (a.Resource != "pods" || a.Verb != "delete")
			})
		}},
		"leave-last": {change: func(i *installation) {
			i.others = []runtime.Object{
				leavesLast("agents", "logs"), leavesLast("agents", "metrics"), leavesLast("kept", "proxy"),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "agents"}},
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept", Labels: map[string]string{everynode.KeepDaemonPods: "true"}}},
			}
		}},
		"json":    {line: "-o json"},
		"nothing": {change: func(i *installation) { *i = installation{} }},
		"broken": {fails: true, change: func(i *installation) {
			i.ready, i.agents, i.renewed = 0, 1, fakecluster.Now().Add(-time.Hour)
			i.certificate, i.observed = certificate(t, fakecluster.Now().Add(-24*time.Hour)), 4
			i.others = []runtime.Object{lease("kruise-system", "kruise-manager", "kruise-1", fakecluster.Now())}
			i.image, i.args = "everynode-manager:v9", []string{"--dialects=native,kruise", "--feature-gates=Nonsense=true"}
		}, adjust: func(c *fakecluster.Cluster) {
			allow(c, func(a *authorizationv1.ResourceAttributes) bool { return a.Resource != "pods" || a.Verb != "patch" })
		}},
		"nearly": {change: func(i *installation) {
			i.ready, i.replicas, i.certificate = 1, 2, certificate(t, fakecluster.Now().Add(10*24*time.Hour))
			i.args = []string{"--dialects", "native", "--feature-gates=ConflictProbe=false", "--config=/etc/manager.yaml"}
		}},
		"yurt-manager": {fails: true, change: func(i *installation) {
			i.args = []string{"--dialects=native,openyurt"}
			i.others = []runtime.Object{lease("kube-system", "cloud-yurt-manager", "yurt-manager-0_1f", fakecluster.Now()), yurtManager("--controllers=*")}
		}},
		"yurt-manager-off": {change: func(i *installation) {
			i.args = []string{"--dialects=native,openyurt"}
			i.others = []runtime.Object{lease("kube-system", "cloud-yurt-manager", "yurt-manager-0_1f", fakecluster.Now()), yurtManager("--controllers=-daemonpodupdater,*")}
		}},
		"no-guards": {fails: true, change: func(i *installation) { i.guards = nil }},
		"loose-guards": {fails: true, change: func(i *installation) {
			for _, object := range i.guards {
				switch o := object.(type) {
				case *flowcontrolv1.FlowSchema:
					if o.Name == "everynode-agents" {
						o.Spec.Rules[0].Subjects[0].ServiceAccount.Namespace = "edge"
						continue
					}
					o.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{{Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionTrue}}
				case *admissionv1.ValidatingAdmissionPolicyBinding:
					o.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit}
				}
			}
		}},
		"unbound-guards": {fails: true, change: func(i *installation) {
			i.without(func(o runtime.Object) bool {
				_, binding := o.(*admissionv1.ValidatingAdmissionPolicyBinding)
				return binding
			})
		}},
		"foreign":      {change: func(i *installation) { i.labelled = false }},
		"foreign-only": {fails: true, change: func(i *installation) { i.labelled, i.args = false, []string{"--dialects=kruise"} }},
		"certificate":  {change: func(i *installation) { i.certificate = certificate(t, fakecluster.Now().Add(10*24*time.Hour)) }},
		"not-trusted":  {fails: true, change: func(i *installation) { i.certificate = nil }},
		"no-rights":    {adjust: forbid},
		"outside":      {adjust: func(c *fakecluster.Cluster) { takeOut(t, c) }, change: func(i *installation) { i.url = "https://192.0.2.1:9443" }},
		"outside-unchecked": {fails: true, adjust: func(c *fakecluster.Cluster) {
			takeOut(t, c)
			if err := c.Kubernetes.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "everynode-validating", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, change: func(i *installation) { i.url = "https://192.0.2.1:9443" }},
		"outside-untold": {fails: true, adjust: func(c *fakecluster.Cluster) {
			takeOut(t, c)
			if err := c.Kubernetes.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(t.Context(), "everynode-mutating", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, change: func(i *installation) {
			i.url, i.certificate = "https://192.0.2.1:9443", nil
		}},
		// A manager that is no Deployment of this cluster may serve other dialects, and then needs no webhooks.
		"outside-policy": {adjust: func(c *fakecluster.Cluster) {
			takeOut(t, c)
			admission := c.Kubernetes.AdmissionregistrationV1()
			for _, err := range []error{
				admission.MutatingWebhookConfigurations().Delete(t.Context(), "everynode-mutating", metav1.DeleteOptions{}),
				admission.ValidatingWebhookConfigurations().Delete(t.Context(), "everynode-validating", metav1.DeleteOptions{}),
				c.Kubernetes.CoreV1().Secrets(system).Delete(t.Context(), "everynode-webhook-certs", metav1.DeleteOptions{}),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}, change: func(i *installation) { i.url = "https://192.0.2.1:9443" }},
		"outside-silent": {adjust: func(c *fakecluster.Cluster) { takeOut(t, c) }, change: func(i *installation) {
			i.url, i.renewed = "https://192.0.2.1:9443", fakecluster.Now().Add(-28*time.Second)
		}},
		"silent-leader": {change: func(i *installation) { i.renewed = fakecluster.Now().Add(-28 * time.Second) }},
		"two-owners":    {change: func(i *installation) { i.theirs = []string{"imagepulljobs"} }},
		"two-owners-native": {change: func(i *installation) {
			i.theirs, i.args = []string{"imagepulljobs"}, []string{"--dialects=native"}
		}},
		// The form of docs/dialects/policy.md: the chart installs agents, and for them the definition of NodeImages.
		"agents-only": {change: func(i *installation) { i.agentsOnly, i.args = true, []string{"--dialects=policy"} }},
		"unserved":    {fails: true, change: func(i *installation) { i.unserved = []string{"daemonsets"} }},
		"silent": {fails: true, says: "the cluster cannot be reached, so no further checks are possible", adjust: func(c *fakecluster.Cluster) {
			c.Kubernetes.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("connection refused")
			})
		}},
		"flaky": {fails: true, adjust: func(c *fakecluster.Cluster) {
			c.Kubernetes.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("connection reset")
			})
		}},
		// A manager that is no Deployment of this cluster is seen by its lease alone: who may not read that knows of none, and of no lack of one.
		"lease-unread": {change: func(i *installation) { i.url = "https://192.0.2.1:9443" }, adjust: func(c *fakecluster.Cluster) {
			takeOut(t, c)
			c.Kubernetes.PrependReactor("get", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), a.(clienttesting.GetAction).GetName(), errors.New("no rule allows it"))
			})
		}},
		"policies-unread": {fails: true, adjust: func(c *fakecluster.Cluster) {
			allow(c, func(r *authorizationv1.ResourceAttributes) bool {
				return r.Resource != "rolloutpolicies" || r.Subresource != ""
			})
		}},
		"policies-absent": {fails: true, adjust: func(c *fakecluster.Cluster) {
			allow(c.WithoutPolicies(), func(r *authorizationv1.ResourceAttributes) bool {
				return r.Resource != "rolloutpolicies" || r.Subresource != ""
			})
		}},
		"few-rights": {adjust: func(c *fakecluster.Cluster) {
			for _, resource := range []string{"deployments", "secrets"} {
				c.Kubernetes.PrependReactor("get", resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", errors.New("no rule allows it"))
				})
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			i := healthy(t)
			if c.change != nil {
				c.change(&i)
			}
			var objects []runtime.Object
			if i.image != "" {
				objects = i.objects()
			}
			cluster := fakecluster.New(t, objects...)
			allow(cluster, everything)
			if c.adjust != nil {
				c.adjust(cluster)
			}
			err := cluster.Run(t, doctor.New, strings.Fields(c.line)...)
			says := cmp.Or(c.says, "at least one check failed")
			if (err != nil) != c.fails || err != nil && (options.Code(err) != options.ExitError || err.Error() != says) {
				t.Errorf("got %v", err)
			}
			fakecluster.Golden(t, *update, name+".txt", cluster.Out.String())
		})
	}
}

// An API server that cannot be reached any more, or that does not know who calls, is told once, and not by every check.
func TestSaysOnceThatNobodyAnswers(t *testing.T) {
	for name, lost := range map[string]error{
		"refused":  &url.Error{Op: "Get", URL: "http://x", Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}},
		"no route": &url.Error{Op: "Get", URL: "http://x", Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH}},
		"unknown":  apierrors.NewUnauthorized("who are you"),
	} {
		t.Run(name, func(t *testing.T) {
			i := healthy(t)
			cluster := fakecluster.New(t, i.objects()...)
			cut := func(a clienttesting.Action) (bool, runtime.Object, error) {
				return a.GetResource().Resource != "version", nil, lost
			}
			cluster.Kubernetes.PrependReactor("*", "*", cut)
			cluster.Dynamic.PrependReactor("*", "*", cut)
			err := cluster.Run(t, doctor.New)
			if said := cluster.Out.String(); err == nil || !strings.HasPrefix(err.Error(), "the cluster cannot be reached") ||
				!strings.HasSuffix(said, "\n1 ok, 0 warnings, 1 failed, 0 skipped\n") || strings.Count(said, lost.Error()) != 1 {
				t.Errorf("%v:\n%s", err, said)
			}
		})
	}
}
