// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// templateEdits are what users change of the template that says where the pod may run.
func templateEdits(set *unstructured.Unstructured, edit func(what string, change func(spec map[string]any))) {
	pool, limited, _ := unstructured.NestedString(set.Object, "spec", "template", "spec", "nodeSelector", poolLabel)
	for _, other := range []string{"a", "b"} {
		if pool != other {
			edit("wants pool "+other, func(spec map[string]any) { wantPool(spec, other) })
		}
	}
	if limited {
		edit("wants all pools", func(spec map[string]any) { wantPool(spec, "") })
	}
	if tolerates(set) {
		edit("tolerates no taint", func(spec map[string]any) { tolerate(spec, nil) })
	} else {
		edit("tolerates the taint", func(spec map[string]any) {
			tolerate(spec, []any{map[string]any{"key": taintKey, "operator": "Exists"}})
		})
	}
}

func wantPool(spec map[string]any, pool string) {
	template := spec["template"].(map[string]any)["spec"].(map[string]any)
	delete(template, "nodeSelector")
	if pool != "" {
		template["nodeSelector"] = map[string]any{poolLabel: pool}
	}
	setImage(spec, baseOf(template))
}

func tolerate(spec map[string]any, tolerations []any) {
	template := spec["template"].(map[string]any)["spec"].(map[string]any)
	delete(template, "tolerations")
	if tolerations != nil {
		template["tolerations"] = tolerations
	}
	setImage(spec, baseOf(template))
}

func tolerates(set *unstructured.Unstructured) bool {
	tolerations, _, _ := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "tolerations")
	return len(tolerations) > 0
}

// whereOf says in words of an image where a template lets the pod run; nothing of the one that a run begins with. An image has them before its name,
// so that it stands for the whole template.
func whereOf(template map[string]any) string {
	places := map[string]string{"a": "", "b": "pool-b/", "": "all-pools/"}
	pool, _, _ := unstructured.NestedString(template, "nodeSelector", poolLabel)
	where := places[pool]
	if template["tolerations"] != nil {
		where += "tolerant/"
	}
	return where
}

// deletionOps: a user deletes the set, with its pods or without, and makes one of the same name.
func (s *sim) deletionOps(ops []op) []op {
	switch {
	case s.w.undefined:
		return ops
	case s.w.set() == nil:
		return append(ops, op{"a user makes the set anew", 8, s.makeSet})
	}
	return append(ops,
		op{"a user deletes the set", 1, func() { s.w.remove(ofSets, setName) }},
		op{"a user deletes the set and leaves its pods", 1, func() { s.leave(); s.w.remove(ofSets, setName) }})
}

// makeSet makes the set of the configuration once more, as another object. Where the generation of a pod's template may be that of either, no pod is as old.
func (s *sim) makeSet() {
	young := func(p *corev1.Pod) bool { return p.CreationTimestamp.Time.Equal(s.w.now) }
	if s.cfg.dialect != kruiseRun && slices.ContainsFunc(s.w.pods(), young) {
		s.pass(time.Second)
	}
	set := s.cfg.newSet(s.w.now.Add(s.w.skew))
	set.SetUID(types.UID(words("set-of-%d", s.w.rv)))
	s.w.put(ofSets, set)
}

// leave takes their owner from all that the set has.
func (s *sim) leave() {
	for _, k := range []kind{ofPods, ofRevisions} {
		for _, o := range s.w.all(k) {
			if owner := metav1.GetControllerOfNoCopy(o); owner != nil && owner.UID == s.w.set().GetUID() {
				left := copyOf(o)
				left.SetOwnerReferences(nil)
				s.w.put(k, left)
			}
		}
	}
}

// lost is whether the set that controls an object is not there any more.
func (s *sim) lost(object metav1.Object) bool {
	owner, set, peer := metav1.GetControllerOfNoCopy(object), s.w.set(), s.w.peer()
	if owner != nil && peer != nil && owner.UID == peer.GetUID() {
		return false
	}
	return owner != nil && !s.w.undefined && (set == nil || owner.UID != set.GetUID())
}

// collectOps are what becomes of the revisions of a set that is not there any more; of its pods, see podOps.
func (s *sim) collectOps(ops []op) []op {
	for _, o := range s.w.all(ofRevisions) {
		if s.lost(o) {
			ops = append(ops, op{words("revision %s is collected", o.GetName()), 4, func() { s.w.remove(ofRevisions, o.GetName()) }})
		}
	}
	return ops
}
