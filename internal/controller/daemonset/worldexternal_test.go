// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/openyurt"
	bypolicy "everynode.dev/everynode/internal/dialect/policy"
	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

const (
	edgeStrategy = "apps.openyurt.io/update-strategy"
	edgeLimit    = "apps.openyurt.io/max-unavailable"
)

// edge is a world with a DaemonSet that carries annotations of OpenYurt. As an external set, upstream's controller keeps its pods.
type edge struct {
	*world
	external bool
	// blind keeps what the other controller writes to its history from the index.
	blind bool
	// bad is an image with which containers crash.
	bad  string
	down map[string]bool
}

// newEdge is a world of that many nodes after its first roll-out. kind is "external", "native", or "policy" for the dialect policy alone.
func newEdge(t *testing.T, nodes int, kind string, annotations map[string]string) *edge {
	t.Helper()
	d := dialect.Dialect{
		Source: dialect.Source{Dialect: "native", Digest: openyurt.Digest}, StatusPatch: openyurt.StatusPatch, GVK: nativeGVK,
		Announce: openyurt.Announce, Texts: nativeTexts(),
	}
	d.Texts.AnnounceFailed, d.Texts.AnnounceFailedText = openyurt.ReasonFailedCondition, openyurt.MessageFailedCondition
	if kind == "external" {
		d.Source, d.StatusPatch = dialect.Source{Dialect: "openyurt", Digest: openyurt.DigestExternal}, openyurt.ExternalPatch
	}
	if kind == "policy" {
		d.Source, d.Announce = dialect.Source{Dialect: "policy", Digest: bypolicy.Digest}, nil
		d.StatusPatch = func(*dialect.Workload, dialect.Report) ([]byte, bool) { return nil, false }
	}
	e := &edge{world: newWorldOf(t, nodes, d), external: kind != "native", down: map[string]bool{}}
	e.index.ReadFacts(openyurt.Facts)
	ds := &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ds", UID: "set-uid", Generation: 1, Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "1"}},
		Spec: appsv1.DaemonSetSpec{
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img:v1"}}},
			},
		},
	}
	maps.Copy(ds.Annotations, annotations)
	e.putSet(ds)
	e.roll()
	return e
}

// upstream is one sync of the other controller: history, missing pods, status, in its order. It says whether it changed anything.
func (e *edge) upstream() (changed bool) {
	e.t.Helper()
	if !e.external {
		return false
	}
	newest := e.history(&changed)
	has := map[string]bool{}
	for _, p := range e.pods {
		rec, _ := clustercache.PodFrom(p)
		has[rec.Node] = true
	}
	for node := range e.nodes() {
		if !has[node] {
			e.create(node, newest)
			changed = true
		}
	}
	numbers := map[string]any{"observedGeneration": e.set.GetGeneration(), "desiredNumberScheduled": int64(len(e.nodes())), "numberReady": int64(len(e.pods))}
	for key, value := range numbers {
		if old, _, _ := unstructured.NestedInt64(e.set.Object, "status", key); old != value {
			_ = unstructured.SetNestedField(e.set.Object, value, "status", key)
			e.set.SetResourceVersion(e.next())
			changed = true
		}
	}
	if changed {
		e.seeSet()
	}
	return changed
}

func (e *edge) nodes() map[string]bool {
	all := map[string]bool{}
	for i := range e.index.NodeCount() {
		all[fmt.Sprintf("n%d", i+1)] = true
	}
	return all
}

// history is the newest revision, written or renumbered where that is due.
func (e *edge) history(changed *bool) *appsv1.ControllerRevision {
	template, _, _ := unstructured.NestedMap(e.set.Object, "spec", "template")
	hash, err := revision.Hash(template, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	highest := int64(0)
	for _, r := range e.revisions {
		highest = max(highest, r.Revision)
	}
	r := e.revisions["ds-"+hash]
	switch {
	case r == nil:
		data, _ := revision.Data(template)
		r = &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "ds-" + hash, UID: types.UID("rev-" + hash),
			Labels: map[string]string{"app": "x", "controller-revision-hash": hash}, OwnerReferences: []metav1.OwnerReference{e.owner()},
		}}
		r.Data.Raw, r.Revision = data, highest+1
	case r.Revision < highest && highest < math.MaxInt64: // beyond that the number overflows, and it is left as it is
		r.Revision = highest + 1
	default:
		return r
	}
	*changed = true
	r.ResourceVersion = e.next()
	e.revisions[r.Name] = r
	if !e.blind {
		e.seeRevision(r)
	}
	return r
}

func (e *edge) owner() metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "ds", UID: "set-uid", Controller: &yes, BlockOwnerDeletion: &yes}
}

func (e *edge) create(node string, r *appsv1.ControllerRevision) {
	e.rv++
	image, _, _ := unstructured.NestedSlice(e.set.Object, "spec", "template", "spec", "containers")
	e.addPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("ds-%d", e.rv), OwnerReferences: []metav1.OwnerReference{e.owner()},
			Labels: map[string]string{"app": "x", "controller-revision-hash": r.Labels["controller-revision-hash"], "pod-template-generation": e.set.GetAnnotations()[appsv1.DeprecatedTemplateGeneration]},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: image[0].(map[string]any)["image"].(string)}}},
	})
}

// roll lets everybody work until nobody has anything left to do.
func (e *edge) roll() {
	e.t.Helper()
	for range 200 {
		before := len(e.log)
		changed := e.upstream()
		e.mustPass()
		changed = e.live() || changed
		e.clock.Step(time.Second)
		if !changed && len(e.log) == before {
			return
		}
	}
	e.t.Fatalf("does not come to rest; last writes: %v", e.log[max(0, len(e.log)-10):])
}

// live is kubelets, but for those of nodes that are down.
func (e *edge) live() (changed bool) {
	for _, name := range slices.Sorted(maps.Keys(e.pods)) {
		p := e.pods[name]
		rec, _ := clustercache.PodFrom(p)
		switch {
		case e.down[rec.Node]:
		case p.DeletionTimestamp != nil:
			e.gone(name)
			changed = true
		case p.Status.Phase == corev1.PodPending:
			p.Spec.NodeName = rec.Node
			p.Status.Phase = corev1.PodRunning
			ready := corev1.ConditionTrue
			if p.Spec.Containers[0].Image == e.bad {
				ready, p.Status.ContainerStatuses = corev1.ConditionFalse, []corev1.ContainerStatus{{RestartCount: 4}}
			}
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(e.clock.Now())})
			e.changed(p)
			changed = true
		}
	}
	return changed
}

// turn cuts a node off, or heals it.
func (e *edge) turn(node string, ready bool) {
	e.down[node] = !ready
	e.index.PutNode(clustercache.Node{Name: node, RV: e.next(), Ready: ready, Since: rollout.Time(e.clock.Now().UnixNano())})
	for _, p := range e.pods {
		if rec, _ := clustercache.PodFrom(p); rec.Node != node {
			continue
		}
		for i := range p.Status.Conditions {
			if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
				c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(e.clock.Now())
				if ready {
					c.Status = corev1.ConditionTrue
				}
			}
		}
		e.changed(p)
	}
}

// restart replaces the controller and all that it knows, as a new leader does.
func (e *edge) restart() {
	e.t.Helper()
	old := e.c
	o := old.Options
	o.Index = clustercache.NewIndex(func(clustercache.Key) {})
	o.Index.ReadFacts(openyurt.Facts)
	executor := *o.Executor
	executor.Index = o.Index
	o.Executor = &executor
	for _, n := range e.seenNodes() {
		o.Index.PutNode(n)
	}
	e.c, e.index = New(o), o.Index
	e.deliver()
}

// seenNodes are the nodes as the index has them.
func (e *edge) seenNodes() []clustercache.Node {
	s, _, _ := e.index.Snapshot(e.key, clustercache.History{Update: rollout.NoRevision, Generation: -1}, 0)
	var nodes []clustercache.Node
	for _, n := range s.Nodes {
		nodes = append(nodes, clustercache.Node{Name: n.Name, RV: e.next(), Ready: n.Ready, Since: n.Since})
	}
	return nodes
}

// images are the images that run, by node.
func (e *edge) images() map[string]string {
	images := map[string]string{}
	for _, p := range e.pods {
		rec, _ := clustercache.PodFrom(p)
		images[rec.Node] = strings.TrimPrefix(p.Spec.Containers[0].Image, "img:")
	}
	return images
}

// says is what each node's pod says of whether there is a newer revision: its status, and whether the message names the newest.
func (e *edge) says() map[string]string {
	newest := ""
	highest := int64(0)
	for _, r := range e.revisions {
		if r.Revision > highest {
			highest, newest = r.Revision, r.Labels["controller-revision-hash"]
		}
	}
	said := map[string]string{}
	for _, p := range e.pods {
		rec, _ := clustercache.PodFrom(p)
		for _, c := range p.Status.Conditions {
			if c.Type != "PodNeedUpgrade" {
				continue
			}
			said[rec.Node] = string(c.Status)
			if c.Message != "controllerrevision: "+newest {
				said[rec.Node] += ", but " + c.Message
			}
		}
	}
	return said
}

func (e *edge) degraded() string {
	conditions, _, _ := unstructured.NestedSlice(e.set.Object, "status", "conditions")
	for _, c := range conditions {
		if c, _ := c.(map[string]any); c["type"] == "Degraded" {
			return fmt.Sprint(c["status"], " ", c["reason"], ": ", c["message"])
		}
	}
	return ""
}

var _ dialect.AnnounceFunc = openyurt.Announce
