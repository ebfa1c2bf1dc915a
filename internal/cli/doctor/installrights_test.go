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
	chart := os.DirFS("../../../charts/everynode")
	err := fs.WalkDir(chart, ".", func(path string, d fs.DirEntry, err error) error {
		// Objects of values that are off by default, and of hooks.
		if optional := []string{"templates/monitoring.yaml", "templates/dashboard.yaml", "templates/test.yaml", "templates/uninstall.yaml"}; err != nil || d.IsDir() || slices.Contains(optional, path) {
			return err
		}
		data, err := fs.ReadFile(chart, path)
		for _, kind := range regexp.MustCompile(`(?m)^kind: ([A-Za-z]+)$`).FindAllStringSubmatch(string(data), -1) {
			resource := strings.ToLower(kind[1]) + "s"
			if strings.HasSuffix(resource, "ys") {
				resource = strings.TrimSuffix(resource, "ys") + "ies"
			}
			want = append(want, "create "+resource)
		}
		return err
	})
	if err != nil || len(want) < 20 {
		t.Fatalf("%v; found %q", err, want)
	}
	slices.Sort(want)
	for _, right := range slices.Compact(want) {
		if !asked[right] {
			t.Errorf("it does not check the right to %s", right)
		}
	}
}
