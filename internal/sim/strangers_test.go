// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "everynode.dev/everynode/api/kruise"
)

const (
	// strangerName begins the name of a pod that a tenant of the set's own namespace runs, and that has no name which the set needs.
	strangerName = "stranger-"
	// strangerUID is part of the UIDs of all pods of that tenant.
	strangerUID = "-stranger-"
	// mostStrangers is how many of them a node has, at most.
	mostStrangers = 3
)

// ownersOf are what the pod of a stranger may say of its owner, in words: it names the UID of the set, but another kind or another group, or names the
// set without being controlled by it, or names another owner, or none.
func (s *sim) ownersOf(claim string) []metav1.OwnerReference {
	set, yes := s.w.set(), true
	of := metav1.OwnerReference{APIVersion: set.GetAPIVersion(), Kind: set.GetKind(), Name: set.GetName(), UID: set.GetUID(), Controller: &yes}
	switch claim {
	case "another kind":
		of.Kind = "ReplicaSet"
	case "another group":
		of.APIVersion = map[bool]string{true: "apps/v1", false: api.Group + "/" + api.VersionStored}[s.cfg.dialect == kruiseRun]
	case "another owner":
		of.APIVersion, of.Kind, of.UID = "example.com/v1", "Thing", "thing"
	case "no controller":
		of.Controller = nil
	default:
		return nil
	}
	return []metav1.OwnerReference{of}
}

func ownerClaims() []string {
	return []string{"another kind", "another group", "no owner", "another owner", "no controller"}
}

// strangerOps: in the namespace of the set somebody runs pods that are not the set's. They have its labels or none, name its UID, or have the name that
// its next pod is to get; and they live, or are being deleted and do not go. What has the set's labels and no owner becomes its pod when it is adopted.
func (s *sim) strangerOps(ops []op) []op {
	for i, n := range s.w.nodes() {
		there := s.strangersOn(n.Name)
		for _, p := range there {
			ops = append(ops, op{words("the stranger's pod %s goes", p.UID), 2, func() { s.w.remove(ofPods, p.Name) }})
		}
		if s.w.set() == nil || len(there) >= mostStrangers {
			continue
		}
		// What the next one is like depends on how many there were: so a run that is cut short has the same ones.
		kind := 11*s.w.born[n.Name+strangerUID] + 17*i + 13*len(s.cfg.faults)
		add := func(name string, weight int) {
			p := s.strangersPod(n.Name, name, kind)
			ops = append(ops, op{words("a stranger runs %s: %s", p.UID, p.Annotations["is"]), weight, func() {
				s.w.born[n.Name+strangerUID]++
				s.w.put(ofPods, p)
			}})
		}
		add("", 1)
		if name := s.wantedName(n.Name); name != "" {
			add(name, 3)
		}
	}
	return ops
}

// wantedName is a name of a pod of the set for a node that no pod has now: of one that a manager is about to create, or else of one that there has been;
// empty if there is none.
func (s *sim) wantedName(node string) string {
	if s.lead != nil {
		for _, r := range s.lead.waiting() {
			if !r.peer && r.action.verb == "create" && r.action.node == node && s.w.pod(r.action.pod) == nil {
				return r.action.pod
			}
		}
	}
	s.named.Lock()
	defer s.named.Unlock()
	for _, name := range sorted(s.names) {
		if s.names[name] == "the pod of "+node && s.w.pod(name) == nil {
			return name
		}
	}
	return ""
}

// strangersPod is the pod of a stranger; kind says which owner it names, whether it has the labels of the set and of its newest revision, and whether it is
// being deleted.
func (s *sim) strangersPod(node, name string, kind int) *corev1.Pod {
	claims, now := ownerClaims(), metav1.NewTime(s.w.now)
	claim, mix := claims[kind%len(claims)], kind/len(claims)
	uid := words("%s%s%d", node, strangerUID, s.w.born[node+strangerUID]+1)
	is := claim
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(uid), CreationTimestamp: now, Generation: 1, Labels: map[string]string{"of": "a stranger"},
			OwnerReferences: s.ownersOf(claim),
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: imageOfSet(s.w.set())}}},
	}
	if name == "" {
		p.Name = strangerName + uid
	} else {
		is += ", has a name of the set's"
	}
	if mix&1 == 0 {
		p.Labels[appLabel] = "x"
		is += ", is selected"
	}
	if hash := s.newestHash(); mix&2 == 0 && hash != "" {
		p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = hash
		is += ", has the newest hash"
	}
	p.Status.Phase = corev1.PodRunning
	s.renew(p)
	s.setReady(p, works(p))
	if mix&4 == 0 {
		seconds := int64(grace)
		p.Finalizers, p.DeletionTimestamp, p.DeletionGracePeriodSeconds = []string{othersFinalizer}, &now, &seconds
		is += ", is being deleted"
	}
	p.Annotations = map[string]string{"is": is}
	return p
}

// newestHash is the hash of the newest revision of the set; empty where there is none yet.
func (s *sim) newestHash() string {
	for _, o := range s.w.all(ofRevisions) {
		if r := o.(*appsv1.ControllerRevision); ownedBy(r, s.w.set()) && imageOfRevision(r) == imageOfSet(s.w.set()) {
			return r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
		}
	}
	return ""
}

// isStrangers is whether a pod was made by a stranger.
func isStrangers(p *corev1.Pod) bool { return strings.Contains(string(p.UID), strangerUID) }

// strangersOn are the pods that strangers have made on a node.
func (s *sim) strangersOn(node string) []*corev1.Pod {
	return slices.DeleteFunc(s.w.pods(), func(p *corev1.Pod) bool { return !isStrangers(p) || nodeOf(p) != node })
}

// pacifyStrangers leaves the pods of strangers where they are, so the set must come to its end next to them. Only of those that have a name which the set
// may need one stays on each node: with two of them, a stranger has taken both names that the set has for its pod there.
func (s *sim) pacifyStrangers() {
	for _, n := range s.w.nodes() {
		named := 0
		for _, p := range s.strangersOn(n.Name) {
			if !strings.HasPrefix(p.Name, strangerName) && !ownedBy(p, s.w.set()) {
				if named++; named > 1 {
					s.w.remove(ofPods, p.Name)
				}
			}
		}
	}
}

// stripped are the kinds of what a webhook takes from new pods.
func stripped() []string {
	return []string{"the hash", "the generation", "hash and generation", "the label of the selector", "the owner", "all labels"}
}

// strippingOps: a webhook takes from new pods what the set knows them by, or ends.
func (s *sim) strippingOps(ops []op) []op {
	if s.w.strips != "" {
		return append(ops, op{"the webhook takes nothing from new pods any more", 2, func() { s.w.strips = "" }})
	}
	for _, what := range stripped() {
		ops = append(ops, op{words("a webhook takes %s from new pods", what), 1, func() { s.w.strips = what }})
	}
	return ops
}

// strip takes from a new pod what a webhook takes.
func strip(p *corev1.Pod, what string) {
	const hash, generation = appsv1.DefaultDaemonSetUniqueLabelKey, extensionsv1beta1.DaemonSetTemplateGenerationKey
	switch what {
	case "the hash":
		delete(p.Labels, hash)
	case "the generation":
		delete(p.Labels, generation)
	case "hash and generation":
		delete(p.Labels, hash)
		delete(p.Labels, generation)
	case "the label of the selector":
		delete(p.Labels, appLabel)
	case "the owner":
		p.OwnerReferences = nil
	case "all labels":
		p.Labels = map[string]string{}
	}
}

// outlivesSet is whether a create takes effect only after its set was deleted and made again, while a webhook takes the owner from new pods. No run has such
// pods: the new set adopts them, and the generation of their template, which may stand for another one in the new set, is all that is known of them. The native
// controller errs as well. With their owner they are collected, an Advanced DaemonSet does not believe generations, and a pod that is older than the set is not believed.
func (s *sim) outlivesSet(r *request) bool {
	set := s.w.set()
	return r.action.verb == "create" && !r.peer && s.w.strips == "the owner" && s.cfg.dialect != kruiseRun && set != nil && r.action.owner != string(set.GetUID())
}
