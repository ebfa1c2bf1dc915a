// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// asManager refuses what the manager may not do, and answers who asks what it may do.
func asManager(c *fakecluster.Cluster, may func(*authorizationv1.ResourceAttributes) bool) {
	refuse := func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", errors.New("no rule allows it"))
	}
	for _, resource := range []string{"deployments", "endpointslices", "subjectaccessreviews", "flowschemas", "validatingadmissionpolicies"} {
		c.Kubernetes.PrependReactor("*", resource, refuse)
	}
	c.Kubernetes.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = may(review.Spec.ResourceAttributes)
		return true, review, nil
	})
}

// answer is what the API server says of the invalid job.
func answer(t *testing.T, c *fakecluster.Cluster, err error) {
	t.Helper()
	c.Dynamic.PrependReactor("create", "imagepulljobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
		create := a.(clienttesting.CreateActionImpl)
		if !slices.Equal(create.CreateOptions.DryRun, []string{metav1.DryRunAll}) {
			t.Errorf("it is no dry run: %+v", create.CreateOptions)
		}
		return true, create.Object, err
	})
}

func rejected() error {
	return apierrors.NewInvalid(schema.GroupKind{Group: "apps.kruise.io", Kind: "ImagePullJob"}, "x", nil)
}

// TestInCluster: with nothing but the rights of the manager, every check is made, and none is skipped; what does not work fails.
func TestInCluster(t *testing.T) {
	const kruise = "--dialects=native,kruise --agent-namespace=everynode-agents"
	for name, c := range map[string]struct {
		line   string
		answer error
		may    func(*authorizationv1.ResourceAttributes) bool
		change func(*installation)
		fails  bool
	}{
		"inside":        {line: kruise, answer: rejected()},
		"inside-native": {line: "--dialects=native"},
		"inside-no-answer": {
			line: kruise, answer: apierrors.NewInternalError(errors.New("failed calling webhook: connection refused")), fails: true,
		},
		"inside-unchecked": {line: kruise, fails: true},
		"inside-rights": {
			line: kruise, answer: rejected(), fails: true, may: func(a *authorizationv1.ResourceAttributes) bool { return a.Resource != "pods" },
		},
		"inside-leaderless": {
			line: kruise, answer: rejected(), fails: true, change: func(i *installation) { i.renewed = fakecluster.Now().Add(-time.Hour) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := healthy(t)
			if c.change != nil {
				c.change(&i)
			}
			cluster := fakecluster.New(t, i.objects()...)
			if c.may == nil {
				c.may = everything
			}
			asManager(cluster, c.may)
			answer(t, cluster, c.answer)
			err := cluster.Run(t, doctor.NewInCluster, strings.Fields(c.line)...)
			if (err != nil) != c.fails || err != nil && err.Error() != "at least one check failed" {
				t.Errorf("got %v", err)
			}
			said := cluster.Out.String()
			if !strings.Contains(said, " 0 skipped") {
				t.Errorf("a check is skipped:\n%s", said)
			}
			fakecluster.Golden(t, *update, name+".txt", said)
		})
	}
}

// TestInClusterWaits: what fails while managers start is checked again, and only the last findings are shown.
func TestInClusterWaits(t *testing.T) {
	i := healthy(t)
	cluster := fakecluster.New(t, i.objects()...)
	asManager(cluster, everything)
	asked := 0
	cluster.Dynamic.PrependReactor("create", "imagepulljobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		if asked++; asked < 3 {
			return true, nil, apierrors.NewInternalError(errors.New("failed calling webhook"))
		}
		return true, nil, rejected()
	})
	if err := cluster.Run(t, doctor.NewInCluster, "--dialects=kruise"); err != nil || asked != 3 {
		t.Errorf("asked %d times: %v\n%s", asked, err, cluster.Out.String())
	}
	if said := cluster.Out.String(); strings.Contains(said, "failed calling webhook") || strings.Count(said, "rights") == 0 {
		t.Errorf("got\n%s", said)
	}
}
