// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
)

// grouped is a herd of which all sets belong to one concurrency group, each by a policy of its own.
type grouped struct {
	*herd
	policies map[string]*policy.Policy
	place    func(node string) string
	// status is what is reported of each set.
	status map[string]*v1alpha1.SetStatus
	// down are for each set the nodes of which a pod was deleted, and that may have no ready pod since.
	down map[string]map[string]bool
}

func newGrouped(t *testing.T, sets, nodes int, scope v1alpha1.ConcurrencyScope) *grouped {
	g := &grouped{
		herd: newHerd(t), policies: map[string]*policy.Policy{}, status: map[string]*v1alpha1.SetStatus{}, down: map[string]map[string]bool{},
		place: map[v1alpha1.ConcurrencyScope]func(string) string{
			v1alpha1.ScopeNode: func(node string) string { return node }, v1alpha1.ScopeZone: zone, v1alpha1.ScopeCluster: func(string) string { return "" },
		}[scope],
	}
	g.c.Policies, g.c.Executor.Pods, g.c.Revisions = g, groupedPods{herdPods{g.herd}, g}, groupedRevisions{herdRevisions{g.herd}}
	for i := range sets {
		name := fmt.Sprintf("set-%d", i)
		g.down[name] = map[string]bool{}
		p := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("policy-" + name)}}
		p.Spec.Targets = []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: name}}
		p.Spec.ConcurrencyGroup = &v1alpha1.ConcurrencyGroup{Name: "network", Scope: scope}
		g.policies[name] = policy.Read(p)
		g.addSet(name)
	}
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		g.index.PutNode(clustercache.Node{Name: name, RV: g.next(), Ready: true, Labels: map[string]string{corev1.LabelTopologyZone: zone(name)}})
	}
	return g
}

// zone is the zone of a node: there are three.
func zone(node string) string { return fmt.Sprintf("zone-%d", (node[len(node)-1]-'0')%3) }

func (g *grouped) Of(set policy.Set) Governance {
	return Governance{Policies: []*policy.Policy{g.policies[set.Name]}}
}

func (g *grouped) Grouped(string) (all []*policy.Policy) {
	for _, p := range g.policies {
		all = append(all, p)
	}
	return all
}

func (g *grouped) Report(set policy.Set, _ []*policy.Policy, status *v1alpha1.SetStatus, _ []v1alpha1.RolloutApproval) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status[set.Name] = status
}

// edit changes the image of a set.
func (g *grouped) edit(name, image string) {
	g.mu.Lock()
	o := g.sets[name]
	containers := []any{map[string]any{"name": "c", "image": image}}
	_ = unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers")
	_ = unstructured.SetNestedField(o.Object, "30%", "spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
	o.SetGeneration(o.GetGeneration() + 1)
	o.SetResourceVersion(g.next())
	g.mu.Unlock()
	g.see(name)
}

// count counts the ready pods of an image.
func (g *grouped) count(image string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.pods {
		if p.Spec.Containers[0].Image == image && len(p.Status.Conditions) > 0 {
			n++
		}
	}
	return n
}

// until waits until so many pods of an image are ready.
func (g *grouped) until(image string, pods int) {
	for end := time.Now().Add(time.Hour); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if g.count(image) >= pods {
			return
		}
	}
	g.t.Fatalf("%d pods of %s are ready, want %d: %+v", g.count(image), image, pods, g.status)
}

// groupedPods are pods that can be deleted. Their deletes are judged.
type groupedPods struct {
	herdPods
	g *grouped
}

// serves is whether a set has a ready pod on a node.
func (g *grouped) serves(set, node string) bool {
	for _, p := range g.pods {
		if p.Labels["app"] == set && boundTo(p) == node && p.DeletionTimestamp == nil && len(p.Status.Conditions) > 0 {
			return true
		}
	}
	return false
}

func boundTo(p *corev1.Pod) string {
	return p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
}

func (f groupedPods) Delete(_ context.Context, _, name string, _ metav1.Preconditions) error {
	g := f.g
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pods[name]
	set, node := p.Labels["app"], boundTo(p)
	for other, down := range g.down {
		for busy := range down {
			if g.serves(other, busy) {
				delete(down, busy)
			} else if other != set && g.place(busy) == g.place(node) {
				g.t.Errorf("%s is deleted on %s while %s is at work on %s", set, node, other, busy)
			}
		}
	}
	g.down[set][node] = true
	now, zero := metav1.Now(), int64(0)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.ResourceVersion = &now, &zero, g.next()
	g.seePod(p)
	time.AfterFunc(time.Second, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.pods, name)
		g.index.DeletePod(p.UID, g.next())
	})
	return nil
}

func (f groupedPods) Get(_ context.Context, _, name string) (*corev1.Pod, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if p := f.g.pods[name]; p != nil {
		return p.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
}

// groupedRevisions are revisions of which annotations can be changed.
type groupedRevisions struct{ herdRevisions }

func (f groupedRevisions) Patch(ctx context.Context, _, name string, patch []byte) (*appsv1.ControllerRevision, error) {
	var change struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, err
	}
	f.h.mu.Lock()
	if r := f.h.revisions[name]; r != nil {
		r.ResourceVersion = f.h.next()
		for key, value := range change.Metadata.Annotations {
			metav1.SetMetaDataAnnotation(&r.ObjectMeta, key, value)
		}
	}
	f.h.mu.Unlock()
	return f.Get(ctx, "", name)
}

// TestSetsOfAGroup: sets of a group are all updated at once, by several workers, and never two at one place; also when the manager is replaced in the middle.
func TestSetsOfAGroup(t *testing.T) {
	const sets, nodes = 3, 12
	for _, scope := range []v1alpha1.ConcurrencyScope{v1alpha1.ScopeNode, v1alpha1.ScopeZone, v1alpha1.ScopeCluster} {
		t.Run(string(scope), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGrouped(t, sets, nodes, scope)
				g.run(func() {
					g.until("img:v1", sets*nodes)
					time.Sleep(10 * time.Second)
					for name := range g.sets {
						g.edit(name, "img:v2")
					}
					g.until("img:v2", nodes/2)
				})
				g.mu.Lock()            // pods get ready meanwhile
				g.c = New(g.c.Options) // another leader, which knows nothing but what the watches show
				g.mu.Unlock()
				g.run(func() {
					g.c.EnqueueAll("native")
					g.until("img:v2", sets*nodes)
				})
			})
		})
	}
}

// TestAStuckSetOfAGroup: a set that does not become available holds its node, and no other one; the others say which set they wait for.
func TestAStuckSetOfAGroup(t *testing.T) {
	const nodes = 4
	synctest.Test(t, func(t *testing.T) {
		g := newGrouped(t, 2, nodes, v1alpha1.ScopeNode)
		g.run(func() {
			g.until("img:v1", 2*nodes)
			time.Sleep(10 * time.Second)
			g.broken = func(p *corev1.Pod) bool { return p.Labels["app"] == "set-0" && p.Spec.Containers[0].Image == "img:v2" }
			g.edit("set-0", "img:v2")
			time.Sleep(time.Minute)
			g.edit("set-1", "img:v3")
			g.until("img:v3", nodes-2)
			time.Sleep(time.Minute)
			g.mu.Lock()
			st := g.status["set-1"]
			if n := len(g.down["set-0"]); n != 2 || st.Phase != v1alpha1.PhaseRolling || len(st.Blocking) == 0 || !strings.Contains(st.Blocking[0].Message, "DaemonSet set-0 of the concurrency group network") {
				t.Errorf("%d nodes are down, %+v", n, st)
			}
			g.mu.Unlock()
			g.broken = nil
			g.edit("set-0", "img:v4") // a fix
			g.until("img:v4", nodes)
			g.until("img:v3", nodes)
		})
	})
}

// TestAGroupWithoutAdvancedDaemonSets: one Advanced DaemonSet that cannot be converted makes all of them unreadable. They do not belong to a group whose policies name only
// sets of apps/v1, so that group does not wait for them.
func TestAGroupWithoutAdvancedDaemonSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrouped(t, 2, 3, v1alpha1.ScopeNode)
		g.c.Late = func() bool { return true }
		g.run(func() {
			g.until("img:v1", 6)
			g.edit("set-0", "img:v2")
			g.until("img:v2", 3)
		})
	})
}

var _ Policies = &grouped{}

// TestALedgerGoesWithItsSets: when no set of a namespace belongs to a group any more, its ledger goes; not while a pass uses it.
func TestALedgerGoesWithItsSets(t *testing.T) {
	g := groups{}
	set := policy.Set{Namespace: "ns", Name: "a"}
	if g.open("ns", false) != nil || len(g.of) != 0 {
		t.Fatal("there is a ledger that was not asked for")
	}
	one, another := g.open("ns", true), g.open("ns", false)
	if one == nil || one != another {
		t.Fatal("two passes of one namespace have different ledgers")
	}
	one.Record(set, policy.LedgerEntry{Group: "network"})
	g.release("ns", one)
	g.release("ns", another)
	if g.of["ns"] == nil {
		t.Fatal("a ledger is gone that has a set")
	}
	one, another = g.open("ns", false), g.open("ns", true)
	one.Forget(set, false)
	g.release("ns", one)
	if g.of["ns"] != another {
		t.Fatal("a ledger is gone that a pass uses")
	}
	g.release("ns", another)
	if len(g.of) != 0 {
		t.Error("an empty ledger is kept")
	}
	waited := g.open("ns", true)
	waited.See(policy.Candidate{Set: set}, policy.Group{Name: "network"}, []policy.Candidate{{Set: policy.Set{Namespace: "ns", Name: "b"}}})
	g.release("ns", waited)
	if g.of["ns"] == nil {
		t.Error("a ledger is gone that knows for which set others wait")
	}
}

// TestTheLastSetOfAGroupTakesTheLedgerAlong: the controller keeps nothing of a namespace whose sets are gone.
func TestTheLastSetOfAGroupTakesTheLedgerAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrouped(t, 2, 1, v1alpha1.ScopeNode)
		g.run(func() { g.until("img:v1", 2) })
		if g.c.groups.of["ns"] == nil {
			t.Fatal("there is no ledger, although two sets belong to a group")
		}
		for name := range g.sets {
			key := clustercache.Key{Dialect: "native", Namespace: "ns", Name: name}
			g.index.DeleteSet(key)
			if _, err := g.c.Reconcile(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		if len(g.c.groups.of) != 0 {
			t.Error("the ledger of a namespace without sets is kept")
		}
	})
}
