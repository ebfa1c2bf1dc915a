// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// TestRightsForTheChart: before an installation, a right is checked for each kind of object that the chart has by default, and those with which the API server lets a user
// create and bind roles whose rights the user does not have.
func TestRightsForTheChart(t *testing.T) {
	asked := map[string]bool{}
	cluster := fakecluster.New(t)
	cluster.Kubernetes.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		asked[review.Spec.ResourceAttributes.Verb+" "+review.Spec.ResourceAttributes.Resource] = true
		review.Status.Allowed = true
		return true, review, nil
	})
	if err := cluster.Run(t, doctor.New, "--before-install"); err != nil {
		t.Fatal(err)
	}
	want := []string{"escalate roles", "escalate clusterroles", "bind roles", "bind clusterroles"}
	for resource := range chartResources(t) {
		want = append(want, "create "+resource)
	}
	slices.Sort(want)
	for _, right := range want {
		if !asked[right] {
			t.Errorf("it does not check the right to %s", right)
		}
	}
}

// chartResources are the resources of which the chart has objects by default, each with its group.
func chartResources(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	chart := os.DirFS("../../../charts/everynode")
	err := fs.WalkDir(chart, ".", func(path string, d fs.DirEntry, err error) error {
		// Objects of values that are off by default, and of hooks.
		if optional := []string{"templates/monitoring.yaml", "templates/dashboard.yaml", "templates/test.yaml", "templates/uninstall.yaml"}; err != nil || d.IsDir() || slices.Contains(optional, path) {
			return err
		}
		data, err := fs.ReadFile(chart, path)
		for _, object := range regexp.MustCompile(`(?m)^apiVersion: (\S+)\nkind: ([A-Za-z]+)$`).FindAllStringSubmatch(string(data), -1) {
			group, _, named := strings.Cut(object[1], "/")
			if !named {
				group = ""
			}
			resource := strings.ToLower(object[2]) + "s"
			if strings.HasSuffix(resource, "ys") {
				resource = strings.TrimSuffix(resource, "ys") + "ies"
			}
			found[resource] = group
		}
		return err
	})
	if err != nil || len(found) < 15 {
		t.Fatalf("%v; found %q", err, found)
	}
	return found
}

// TestDeadWebhooksForTheChart: a webhook without a ready pod prevents the installation if it must answer for any of the objects of the chart, also if it leaves the
// namespaces of the installation out, because that is not asked for objects without a namespace. No webhook is asked about the configuration of webhooks.
func TestDeadWebhooksForTheChart(t *testing.T) {
	clusterWide := []string{"clusterrolebindings", "clusterroles", "customresourcedefinitions", "flowschemas", "prioritylevelconfigurations"}
	for resource, group := range chartResources(t) {
		for _, leftOut := range []bool{false, true} {
			hooks := otherHooks("engine", "engine", group, resource)
			if leftOut {
				hooks = elsewhere(hooks, metav1.LabelSelectorOpNotIn, "everynode-system", "everynode-agents", "kruise-daemon-config")
			}
			cluster := fakecluster.New(t, hooks)
			cluster.Kubernetes.PrependReactor("create", "selfsubjectaccessreviews", allowed)
			err := cluster.Run(t, doctor.New, "--before-install")
			want := group != "admissionregistration.k8s.io" && (!leftOut || slices.Contains(clusterWide, resource))
			if (err != nil) != want {
				t.Errorf("a dead webhook for %s of %q, which leaves our namespaces out: %v: got %v, want an error: %v", resource, group, leftOut, err, want)
			}
		}
	}
}

// allowed is the answer that a user may do everything.
func allowed(a clienttesting.Action) (bool, runtime.Object, error) {
	review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
	review.Status.Allowed = true
	return true, review, nil
}
