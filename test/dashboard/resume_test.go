// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// TestResumeNeedsBothRights: if both the set is paused and its policy is suspended, resume changes both. Who may change only one of them is not offered what would be done by half.
func TestResumeNeedsBothRights(t *testing.T) {
	for missing, other := range map[string]string{"rolloutpolicies": "daemonsets", "daemonsets": "rolloutpolicies"} {
		b := browse(t)
		paused := map[string]any{"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"paused": true}}}
		cluster := fakecluster.New(t, fakecluster.Roll{Name: set, Advanced: true, Letters: "uoo", Spec: paused}.Objects(t)...)
		cluster.Kubernetes.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, kuberuntime.Object, error) {
			review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview) //nolint:forcetypeassert // it is one
			of := review.Spec.ResourceAttributes
			return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: of.Verb != "patch" || !strings.Contains(of.Resource, missing)}}, nil
		})
		governed(t, cluster, `{"name": "canary", "nodes": {"count": 1}}], "suspend": true, "windows": [`, `"phase": "Rolling", "wave": "canary", "waves": [{"name": "canary", "nodes": 1, "updated": 1, "available": 1, "phase": "Rolling"}]`)
		address := served(t, cluster)
		resume := chrome.Named(".actions > button", "resume")
		b.Does(missing, firstSet(address), chrome.Until(chrome.Named(".actions > button", "suspend")+" === undefined || true"),
			chrome.Until(resume+`?.disabled && `+resume+`.title.includes("`+missing+`") && !`+resume+`.title.includes("`+other+`")`))
		b.Quiet()
	}
}
