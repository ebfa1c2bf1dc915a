// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// A user whose role names the policy of the set (resourceNames) may suspend it and change it in a plan, as on the command line.
func TestARightForOnePolicy(t *testing.T) {
	cluster := zoned(t, roll())
	if err := cluster.Dynamic.Tracker().Create(policies.Resource(), fakecluster.Object(t, rolloutPolicy), "default"); err != nil {
		t.Fatal(err)
	}
	cluster.Kubernetes.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		asked := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).Spec.ResourceAttributes
		allowed := asked.Resource != "rolloutpolicies" || asked.Verb != "patch" || asked.Name == "agents"
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}}, nil
	})
	var missing map[string]string
	open(t, cluster).read(http.MethodGet, "/api/rights"+setQuery, "", &missing)
	if len(missing) > 0 {
		t.Errorf("the user may patch the policy agents, and the page says: %v", missing)
	}
}
