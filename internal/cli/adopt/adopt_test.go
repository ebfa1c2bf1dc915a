// SPDX-License-Identifier: Apache-2.0

package adopt_test

import (
	"context"
	"errors"
	"flag"
	"reflect"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files")

// definition is one of OpenKruise's, in short.
func definition(t *testing.T, resource, versions, stored string) *unstructured.Unstructured {
	t.Helper()
	return fakecluster.Object(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: `+resource+`.apps.kruise.io, resourceVersion: "5", labels: {app: kruise}}
spec:
  group: apps.kruise.io
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: kruise-webhook-service, namespace: kruise-system, path: /convert}}}}
  versions: [`+versions+`]
status: {storedVersions: [`+stored+`]}`)
}

const both = "{name: v1alpha1}, {name: v1beta1}"

// storedAs is what someone does who has all objects of a definition stored in one version again.
func storedAs(t *testing.T, c *fakecluster.Cluster, resource, version string) {
	t.Helper()
	found, err := c.Dynamic.Tracker().Get(definitions(), "", resource+".apps.kruise.io")
	if err != nil {
		t.Fatal(err)
	}
	crd := found.(*unstructured.Unstructured).DeepCopy()
	if err := errors.Join(unstructured.SetNestedStringSlice(crd.Object, []string{version}, "status", "storedVersions"), c.Dynamic.Tracker().Update(definitions(), crd, "")); err != nil {
		t.Fatal(err)
	}
}

func hooks(t *testing.T, prefix string) []runtime.Object {
	t.Helper()
	name := map[string][2]string{
		"kruise":    {"kruise-mutating-webhook-configuration", "kruise-validating-webhook-configuration"},
		"everynode": {"everynode-mutating", "everynode-validating"},
	}[prefix]
	manifest := "apiVersion: admissionregistration.k8s.io/v1\nkind: "
	return []runtime.Object{
		fakecluster.Object(t, manifest+"MutatingWebhookConfiguration\nmetadata: {name: "+name[0]+"}\nwebhooks: [{name: a}]"),
		fakecluster.Object(t, manifest+"ValidatingWebhookConfiguration\nmetadata: {name: "+name[1]+"}\nwebhooks: [{name: b}]"),
	}
}

// others are the definitions beside that of the Advanced DaemonSet.
func others(t *testing.T) []runtime.Object {
	t.Helper()
	return []runtime.Object{definition(t, "imagepulljobs", both, "v1beta1"), definition(t, "nodeimages", both, "v1beta1")}
}

// world is a cluster with OpenKruise's definitions, both webhooks, and one Advanced DaemonSet.
func world(t *testing.T, more ...runtime.Object) *fakecluster.Cluster {
	t.Helper()
	objects := append(hooks(t, "kruise"), hooks(t, "everynode")...)
	objects = append(append(objects, others(t)...), definition(t, "daemonsets", both, "v1alpha1, v1beta1"),
		fakecluster.Object(t, "apiVersion: apps.kruise.io/v1beta1\nkind: DaemonSet\nmetadata: {name: agent, namespace: default}\nspec: {minReadySeconds: 3}"))
	c := fakecluster.New(t, append(objects, more...)...)
	c.HonourDryRun(t)
	return c
}

func definitions() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// converting has the manager say how its conversion is reached, as soon as the definition is Everynode's.
func converting(t *testing.T, c *fakecluster.Cluster) *fakecluster.Cluster {
	t.Helper()
	c.Dynamic.PrependReactor("get", "customresourcedefinitions", func(action clienttesting.Action) (bool, runtime.Object, error) {
		found, err := c.Dynamic.Tracker().Get(definitions(), "", action.(clienttesting.GetActionImpl).Name)
		if err != nil {
			return true, nil, err
		}
		crd := found.(*unstructured.Unstructured).DeepCopy()
		if crd.GetLabels()["everynode.dev/part-of"] == "everynode" {
			err = unstructured.SetNestedField(crd.Object, "everynode-webhook", "spec", "conversion", "webhook", "clientConfig", "service", "name")
		}
		return true, crd, err
	})
	return c
}

func lease(namespace, name string, renewed time.Time) *coordinationv1.Lease {
	holder, seconds := "manager-0", int32(15)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: renewed}},
	}
}

// brief leaves out what is sent: definitions are long.
func brief(text string) string {
	var kept []string
	sent := false
	for _, line := range strings.Split(text, "\n") {
		if indented := strings.HasPrefix(line, "   "); sent && indented {
			continue
		}
		if sent = strings.HasPrefix(line, "-> "); sent {
			line, _, _ = strings.Cut(line, " by ")
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "\n")
}

func TestScreens(t *testing.T) {
	now := fakecluster.Now()
	for name, play := range map[string]func(t *testing.T) string{
		"adopt": func(t *testing.T) string {
			return converting(t, world(t)).Session(t, command.Root, "adopt --dry-run", "adopt --dry-run=client", "adopt", "adopt",
				"adopt --back --dry-run", "adopt --back", "adopt --back")
		},
		"machines": func(t *testing.T) string {
			return converting(t, world(t)).Session(t, command.Root, "adopt -o json --dry-run", "adopt -o yaml", "adopt -o json", "adopt -o json --back", "adopt -o json --back") +
				world(t).Session(t, command.Root, "adopt -o yaml --timeout 1ms")
		},
		"no-manager": func(t *testing.T) string { return world(t).Session(t, command.Root, "adopt --timeout 1ms") },
		"at-work": func(t *testing.T) string {
			return world(t, lease("kruise-system", "kruise-manager", now.Add(-5*time.Second))).Session(t, command.Root, "adopt") +
				world(t, lease("kruise-system", "kruise-manager", now.Add(-time.Minute))).Session(t, command.Root, "adopt --dry-run=client")
		},
		"we-at-work": func(t *testing.T) string {
			return converting(t, world(t, lease("everynode-system", "everynode-manager", now))).Session(t, command.Root, "adopt", "adopt --back")
		},
		"refused": func(t *testing.T) string {
			text := fakecluster.New(t).Session(t, command.Root, "adopt")
			text += fakecluster.New(t, definition(t, "daemonsets", both, "v1beta1")).Session(t, command.Root, "adopt")
			text += fakecluster.New(t, append(others(t), definition(t, "daemonsets", both, "v1beta1"))...).Session(t, command.Root, "adopt")
			return text + fakecluster.New(t, append(others(t), definition(t, "daemonsets", "{name: v1alpha0}", "v1alpha0"))...).Session(t, command.Root, "adopt")
		},
		"no-way-back": func(t *testing.T) string {
			objects := append(hooks(t, "everynode"), definition(t, "daemonsets", "{name: v1alpha1}", "v1alpha1"))
			c := converting(t, fakecluster.New(t, append(objects, others(t)...)...))
			c.HonourDryRun(t)
			text := c.Session(t, command.Root, "adopt --dry-run", "adopt", "adopt --back")
			storedAs(t, c, "daemonsets", "v1alpha1")
			return text + c.Session(t, command.Root, "adopt --back")
		},
	} {
		t.Run(name, func(t *testing.T) { fakecluster.Golden(t, *update, name+".txt", brief(play(t))) })
	}
}

// What comes back is what was there, wherever the two were interrupted: every request that writes is the last one once.
func TestThereAndBackInterruptedAnywhere(t *testing.T) {
	for last := 0; ; last++ {
		c := converting(t, world(t))
		before := state(t, c)
		sent, broken := 0, true
		cut := func(action clienttesting.Action) (bool, runtime.Object, error) {
			switch action.GetVerb() {
			case "create", "delete", "patch", "update":
				if sent++; broken && sent > last {
					return true, nil, errors.New("connection refused")
				}
			}
			return false, nil, nil
		}
		c.Dynamic.PrependReactor("*", "*", cut)
		c.Kubernetes.PrependReactor("*", "*", cut)
		finished := true
		for _, args := range [][]string{{"adopt"}, {"adopt", "--back"}} {
			if err := c.Run(t, command.Root, args...); err != nil {
				finished, broken = false, false
				if err := c.Run(t, command.Root, args...); err != nil {
					t.Fatalf("interrupted after %d requests, %q does not go on: %v", last, args, err)
				}
			}
		}
		if after := state(t, c); !reflect.DeepEqual(before, after) {
			t.Fatalf("interrupted after %d requests: there was\n%v\nand is\n%v", last, before, after)
		}
		if finished {
			if last < 10 {
				t.Errorf("%d requests were enough", last)
			}
			return
		}
	}
}

// state is what must be as before: the definitions but for what they say is stored, and OpenKruise's webhooks.
func state(t *testing.T, c *fakecluster.Cluster) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, name := range []string{"daemonsets", "imagepulljobs", "nodeimages"} {
		found, err := c.Dynamic.Tracker().Get(definitions(), "", name+".apps.kruise.io")
		if err != nil {
			t.Fatal(err)
		}
		crd := found.(*unstructured.Unstructured)
		all[name] = []any{crd.Object["spec"], crd.GetLabels()}
	}
	for _, kind := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		resource := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: kind}
		list, err := c.Dynamic.Resource(resource).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list.Items {
			if strings.HasPrefix(one.GetName(), "kruise") {
				all[one.GetName()] = one.Object["webhooks"]
			}
		}
	}
	kept, err := c.Kubernetes.CoreV1().ConfigMaps(corev1.NamespaceAll).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all["kept"] = len(kept.Items)
	return all
}

// TestALeaseIsNotJudgedByTheClockOfThisMachine: where that is a minute fast, a manager that renews its lease every few seconds is at work all the same.
func TestALeaseIsNotJudgedByTheClockOfThisMachine(t *testing.T) {
	renewed := fakecluster.Now().Add(-time.Minute)
	c := converting(t, world(t, lease("kruise-system", "kruise-manager", renewed)))
	c.Kubernetes.PrependReactor("get", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.(clienttesting.GetActionImpl).Name != "kruise-manager" {
			return false, nil, nil
		}
		renewed = renewed.Add(2 * time.Second) // each time it is read it has been renewed
		return true, lease("kruise-system", "kruise-manager", renewed), nil
	})
	if out := c.Session(t, command.Root, "take-over"); !strings.Contains(out, "is active") {
		t.Errorf("taken over from a manager at work:\n%s", brief(out))
	}
}
