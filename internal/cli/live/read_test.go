// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/live"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/rollout"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

func options(t *testing.T, roll fakecluster.Roll) (live.ReadOptions, *fakecluster.Cluster) {
	cluster := fakecluster.New(t, roll.Objects(t)...)
	d := dialects.Onlookers()[1]
	return live.ReadOptions{
		Client: cluster.Kubernetes, Dynamic: cluster.Dynamic, Namespace: "default", Facts: dialects.FactsOf(dialects.Names()),
		Sets: []live.ReadSet{{Source: d.Source, InPlace: d.InPlace, Object: roll.Object()}},
	}, cluster
}

// What is read at once is what the manager decides with: also whether a pod can be changed in place.
func TestRead(t *testing.T) {
	inPlace := map[string]any{"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": int64(1)}}}
	o, _ := options(t, fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uon", Spec: inPlace})
	reading, err := live.Read(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	view, ok := reading.Evaluate(clustercache.Key{Dialect: dialects.Kruise, Namespace: "default", Name: "agent"}, rollout.Time(fakecluster.Now().UnixNano()))
	if !ok || len(reading.Nodes()) != 3 || len(view.Snapshot.Nodes) != 3 || view.Snapshot.Set.Update != 1 || len(view.History.Entries) != 2 {
		t.Fatalf("%v %+v", ok, view.Snapshot)
	}
	if !view.Snapshot.Revisions[0].InPlace {
		t.Errorf("the images alone differ, and yet the old revision cannot become the new one in place: %+v", view.Snapshot.Revisions)
	}
	plan := live.Decide(view.Workload, view.Snapshot)
	if plan.Verdicts[0].Kind != rollout.UpToDate || plan.Verdicts[2].Kind != rollout.NotWanted || plan.Status.Desired != 2 {
		t.Errorf("got %+v", plan)
	}
	if _, ok := reading.Evaluate(clustercache.Key{Dialect: dialects.Native, Namespace: "default", Name: "agent"}, 1); ok {
		t.Error("a set that was not read was seen")
	}
}

func TestReadSaysWhatItMayNotList(t *testing.T) {
	for _, resource := range []schema.GroupResource{{Resource: "nodes"}, {Resource: "pods"}, {Group: "apps", Resource: "controllerrevisions"}} {
		o, cluster := options(t, fakecluster.Roll{Name: "agent", Advanced: true, Letters: "u"})
		cluster.Kubernetes.PrependReactor("list", resource.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(resource, "", nil)
		})
		_, err := live.Read(t.Context(), o)
		if list := (*live.ListError)(nil); !errors.As(err, &list) || list.Resource != resource || !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v", resource, err)
		}
	}
}

// For a set that cannot be honoured nothing is done, so nothing is shown as if it were.
func TestNothingIsDecidedForASetThatIsRefused(t *testing.T) {
	o, _ := options(t, fakecluster.Roll{Name: "agent", Advanced: true, Letters: "oon", Spec: map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "x"}}}})
	reading, err := live.Read(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	view, _ := reading.Evaluate(clustercache.Key{Dialect: dialects.Kruise, Namespace: "default", Name: "agent"}, rollout.Time(fakecluster.Now().UnixNano()))
	plan := live.Decide(view.Workload, view.Snapshot)
	if len(plan.Actions) != 0 || plan.Verdicts[0].Kind != rollout.NotEvaluated || plan.Verdicts[2].Kind != rollout.NotWanted {
		t.Errorf("got %+v", plan)
	}
}

// What has no owner is adopted before anything is decided, so it counts as the set's own: a set that takes the place of one whose pods were
// left behind restarts none of them.
func TestReadAdopts(t *testing.T) {
	roll := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uo"}
	var objects []runtime.Object
	for _, object := range roll.Objects(t) {
		switch o := object.(type) {
		case *corev1.Pod:
			o.OwnerReferences = nil
		case *appsv1.ControllerRevision:
			o.OwnerReferences = nil
		}
		objects = append(objects, object)
	}
	cluster := fakecluster.New(t, objects...)
	o, _ := options(t, roll)
	o.Client, o.Dynamic = cluster.Kubernetes, cluster.Dynamic
	key := clustercache.Key{Dialect: dialects.Kruise, Namespace: "default", Name: "agent"}
	for _, others := range []bool{false, true} {
		if others {
			set := roll.Object()
			if err := unstructured.SetNestedStringMap(set.Object, map[string]string{"app": "other"}, "spec", "selector", "matchLabels"); err != nil {
				t.Fatal(err)
			}
			o.Sets[0].Object = set
		}
		reading, err := live.Read(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		view, ok := reading.Evaluate(key, rollout.Time(fakecluster.Now().UnixNano()))
		if !ok || (len(view.History.Entries) == 2) == others || (len(view.Snapshot.Nodes[0].Pods) == 1) == others {
			t.Errorf("labels of others %v: %d revisions, %+v", others, len(view.History.Entries), view.Snapshot.Nodes)
		}
	}
}
