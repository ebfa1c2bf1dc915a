// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"path"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

const (
	// peerName is the name of another set on the same nodes, of apps/v1, and of its policy. It is in a run with groups: both policies name the group.
	peerName  = "peer"
	groupName = "network"
	// peerSoak is how long the first of its waves soaks.
	peerSoak = 3 * time.Second
)

// grouped is whether a run has a peer.
func (c config) grouped() bool { return c.with("rollouts") && c.with("groups") }

// isPeers is whether the name of a pod or a revision is one of the peer's.
func isPeers(name string) bool { return strings.HasPrefix(name, peerName+"-") }

// makePeer makes the peer with its policy.
func (s *sim) makePeer() {
	if !s.cfg.grouped() {
		return
	}
	native := config{dialect: nativeRun, unavailable: s.cfg.unavailable, surge: s.cfg.surge, minReady: s.cfg.minReady}
	set := native.newSet(s.w.now)
	set.SetName(peerName)
	set.SetUID(peerName + "-set")
	labels := map[string]any{appLabel: "y"}
	spec := set.Object["spec"].(map[string]any)
	spec["selector"] = map[string]any{"matchLabels": labels}
	spec["template"].(map[string]any)["metadata"].(map[string]any)["labels"] = labels
	s.w.put(ofSets, set)
	s.makePeerPolicy()
}

// makePeerPolicy makes the policy of the peer, once more as another object.
func (s *sim) makePeerPolicy() {
	s.w.born[peerName]++
	one := int32(1)
	spec := v1alpha1.RolloutPolicySpec{
		Targets:          []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: peerName}},
		Waves:            []v1alpha1.Wave{{Name: "w1", Nodes: v1alpha1.WaveNodes{Count: &one}, Soak: &metav1.Duration{Duration: peerSoak}}},
		ConcurrencyGroup: s.cfg.group(),
	}
	s.w.put(ofPolicies, &v1alpha1.RolloutPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: peerName, UID: types.UID(words("policy-of-%s-%d", peerName, s.w.born[peerName])), Generation: 1,
			CreationTimestamp: metav1.NewTime(s.w.now),
		},
		Spec: spec,
	})
}

// group is the concurrency group of both policies; nil if there is none.
func (c config) group() *v1alpha1.ConcurrencyGroup {
	for _, word := range strings.Split(c.rollout, ",") {
		if scope, is := strings.CutPrefix(word, "group:"); is {
			return &v1alpha1.ConcurrencyGroup{Name: groupName, Scope: v1alpha1.ConcurrencyScope(scope)}
		}
	}
	return nil
}

// peer is the other set of the group; nil if there is none.
func (w *world) peer() *unstructured.Unstructured {
	u, _ := w.state[ofSets][peerName].(*unstructured.Unstructured)
	return u
}

// peerPods are the pods of the peer on a node.
func (w *world) peerPods(node string) []*corev1.Pod {
	return slices.DeleteFunc(w.pods(), func(p *corev1.Pod) bool { return nodeOf(p) != node || !ownedBy(p, w.peer()) })
}

// editPeer sets the image of the peer.
func (s *sim) editPeer(image string) {
	set := s.w.peer().DeepCopy()
	setImage(set.Object["spec"].(map[string]any), image)
	set.SetGeneration(set.GetGeneration() + 1)
	annotations := set.GetAnnotations()
	annotations[appsv1.DeprecatedTemplateGeneration] = words("%d", set.GetGeneration())
	set.SetAnnotations(annotations)
	s.w.put(ofSets, set)
}

// peerOps are what people do with the peer and its policy.
func (s *sim) peerOps(ops []op) []op {
	is := path.Base(imageOfSet(s.w.peer()))
	for _, image := range []string{"v1", "v2", "v3", "v4-bad"} {
		if image != is {
			ops = append(ops, op{"a user sets the image " + image + " of the peer", 1, func() { s.editPeer(image) }})
		}
	}
	policy, _ := s.w.state[ofPolicies][peerName].(*v1alpha1.RolloutPolicy)
	if policy == nil {
		return append(ops, op{"a user makes the policy of the peer again", 4, s.makePeerPolicy})
	}
	ops = append(ops,
		op{"a user deletes the policy of the peer", 1, func() { s.w.remove(ofPolicies, peerName) }},
		op{"the status of the policy of the peer is lost", 1, func() {
			s.changePeerPolicy(func(p *v1alpha1.RolloutPolicy) { p.Status = v1alpha1.RolloutPolicyStatus{} })
		}})
	scopes := []v1alpha1.ConcurrencyScope{v1alpha1.ScopeNode, v1alpha1.ScopeZone, v1alpha1.ScopeCluster}
	for _, scope := range scopes {
		if policy.Spec.ConcurrencyGroup.Scope != scope {
			ops = append(ops, op{words("a user gives the group of the peer the scope %s", scope), 1, func() {
				s.changePeerPolicy(func(p *v1alpha1.RolloutPolicy) {
					p.Spec.ConcurrencyGroup.Scope = scope
					p.Generation++
				})
			}})
		}
	}
	return ops
}

func (s *sim) changePeerPolicy(change func(p *v1alpha1.RolloutPolicy)) {
	p := s.w.state[ofPolicies][peerName].(*v1alpha1.RolloutPolicy).DeepCopy()
	change(p)
	s.w.put(ofPolicies, p)
}

// pacifyPeer ends what keeps the peer from coming to its end.
func (s *sim) pacifyPeer() {
	if !s.cfg.grouped() {
		return
	}
	if s.w.state[ofPolicies][peerName] == nil {
		s.makePeerPolicy()
	}
	if strings.HasSuffix(imageOfSet(s.w.peer()), "bad") {
		s.editPeer("v3")
	}
}

// unstickPeer is that a user takes the waves of the peer away, where pods that never work use up its budget, or all nodes of one are gone; nil where there is nothing to do.
func (s *sim) unstickPeer() *op {
	p, _ := s.w.state[ofPolicies][peerName].(*v1alpha1.RolloutPolicy)
	if p == nil || len(p.Spec.Waves) == 0 {
		return nil
	}
	gone := slices.ContainsFunc(p.Status.Sets, func(st v1alpha1.SetStatus) bool {
		return slices.ContainsFunc(st.Blocking, func(b v1alpha1.Blocking) bool { return b.Reason == "NodesGone" || b.Reason == "NodesLeftOut" })
	})
	if !gone && !slices.ContainsFunc(s.w.pods(), func(p *corev1.Pod) bool { return ownedBy(p, s.w.peer()) && live(p) && !works(p) }) {
		return nil
	}
	return &op{"a user takes the waves of the peer away", 1, func() {
		s.changePeerPolicy(func(p *v1alpha1.RolloutPolicy) {
			p.Spec.Waves = nil
			p.Generation++
		})
	}}
}

// checkPeer: in the end the peer is as its template says, too, unless it waits for pods of the set that never work.
func (s *sim) checkPeer() {
	set := s.w.peer()
	if set == nil || slices.ContainsFunc(s.w.pods(), func(p *corev1.Pod) bool { return ownedBy(p, s.w.set()) && !works(p) }) {
		return
	}
	for _, n := range s.w.nodes() {
		pods := s.w.peerPods(n.Name)
		if fitOf(set, n) != mustRun {
			continue
		}
		if len(pods) != 1 || !available(pods[0], 0, s.w.now) || imageOf(pods[0]) != imageOfSet(set) {
			s.blame("liveness", "%s has %d pods of the peer, or none of %s that is ready", n.Name, len(pods), imageOfSet(set))
		}
	}
}
