// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tenantSpace is the namespace of somebody else.
const tenantSpace = "tenant"

// policy refuses every write of one kind for the pods of one node, until it goes: an admission policy, a quota, or a webhook.
type policy struct {
	verb, node string
	refusal
}

// policyVerbs are the kinds of writes that a policy refuses.
func policyVerbs() []string { return []string{"create", "delete", "patch"} }

// policyAnswers are what those who stand before the API server say when they refuse a write. The last one leaves open whether the write took effect.
func policyAnswers() []refusal {
	code := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
	}
	return []refusal{
		{"no code", code(http.StatusBadRequest, `admission webhook "w.example" denied the request`)},
		{"forbidden", errQuota("")},
		{"a webhook that is down", apierrors.NewInternalError(errors.New(`failed calling webhook "w.example": connection refused`))},
		{"unauthorized", apierrors.NewUnauthorized("denied")},
		{"too large", apierrors.NewRequestEntityTooLargeError("limit is 3145728")},
		{"invalid", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "", nil)},
		{"a budget of disruptions", apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)},
		{"an internal error", apierrors.NewInternalError(errors.New("rpc error: code = Unavailable"))},
	}
}

// policyOps are policies that come and go: one at a time, so that there is something left to compare with.
func (s *sim) policyOps(ops []op) []op {
	if s.w.policy != nil {
		return append(ops, op{"the policy goes", 2, func() { s.w.policy = nil }})
	}
	answers := policyAnswers()
	for i, n := range s.w.nodes() {
		for k, verb := range policyVerbs() {
			p := &policy{verb, n.Name, answers[(3*i+k)%len(answers)]}
			ops = append(ops, op{words("a policy refuses to %s pods of %s: %s", verb, p.node, p.what), 1, func() { s.w.policy = p }})
		}
	}
	return ops
}

// refused is what the policy says to a request; nil if nothing stands against it.
func (s *sim) refused(r *request) error {
	if h := s.w.webhook; h != nil && h.says.err != nil && s.concerns(r, h.verb, h.node) {
		return h.says.err
	}
	if err := s.guarded(r); err != nil {
		return err
	}
	if p := s.w.policy; p != nil && s.concerns(r, p.verb, p.node) {
		return p.err
	}
	return nil
}

// concerns is whether a request is a write of that kind for the pods of a node; of any if that is empty.
func (s *sim) concerns(r *request, verb, on string) bool {
	if !r.write || !r.ofPod {
		return false
	}
	kind, node := r.action.verb, r.action.node
	if kind == "own" || kind == "announce" {
		kind = "patch"
	}
	if pod := s.w.pod(r.action.pod); kind != "create" {
		if pod == nil {
			return false
		}
		node = nodeOf(pod)
	}
	return kind == verb && (on == "" || node == on)
}

// revisionOps: people delete revisions, at once or with somebody else's finalizer.
func (s *sim) revisionOps(ops []op) []op {
	for _, o := range s.w.all(ofRevisions) {
		name := o.GetName()
		if o.GetDeletionTimestamp() != nil {
			ops = append(ops, op{"revision " + name + " is gone", 2, func() { s.w.remove(ofRevisions, name) }})
			continue
		}
		ops = append(ops,
			op{"a user deletes revision " + name, 1, func() { s.w.remove(ofRevisions, name) }},
			op{"a user deletes revision " + name + ", which has a finalizer", 1, func() {
				object, at := copyOf(o), metav1.NewTime(s.w.now)
				object.SetFinalizers([]string{"example.com/user"})
				object.SetDeletionTimestamp(&at)
				s.w.put(ofRevisions, object)
			}})
	}
	return ops
}

// tenantOps: in a namespace of his own somebody runs pods that name the set as their owner.
func (s *sim) tenantOps(ops []op) []op {
	set := s.w.set()
	for _, n := range s.w.nodes() {
		name := "tenant-" + n.Name
		if s.w.pod(name) != nil {
			ops = append(ops, op{"the tenant's pod on " + n.Name + " goes", 2, func() { s.w.remove(ofPods, name) }})
			continue
		}
		if set == nil {
			continue
		}
		for _, leaving := range []bool{false, true} {
			text := words("a tenant's pod on %s names the set, terminating %t", n.Name, leaving)
			ops = append(ops, op{text, 1, func() { s.w.put(ofPods, s.tenantPod(n.Name, leaving)) }})
		}
	}
	return ops
}

func (s *sim) tenantPod(node string, leaving bool) *corev1.Pod {
	set, yes, now := s.w.set(), true, metav1.NewTime(s.w.now)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: tenantSpace, Name: "tenant-" + node, UID: types.UID(words("tenant-%s-%d", node, s.w.rv)), CreationTimestamp: now,
			Labels: map[string]string{"app": "x"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: set.GetAPIVersion(), Kind: set.GetKind(), Name: set.GetName(), UID: set.GetUID(), Controller: &yes,
			}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: imageOfSet(set)}}},
	}
	p.Status.Phase = corev1.PodRunning
	s.setReady(p, true)
	if leaving {
		seconds := int64(grace)
		p.Finalizers, p.DeletionTimestamp, p.DeletionGracePeriodSeconds = []string{"example.com/user"}, &now, &seconds
	}
	return p
}

// mutationOps: a webhook begins to change the pods that are created, or ends.
func (s *sim) mutationOps(ops []op) []op {
	text := map[bool]string{false: "a webhook changes new pods", true: "the webhook changes no pod any more"}[s.w.mutates]
	return append(ops, op{text, 1, func() { s.w.mutates = !s.w.mutates }})
}

// mutate is what the webhook does to a new pod: as a service mesh does, and an administrator who wants it on nodes with a taint.
func mutate(p *corev1.Pod) {
	p.Labels["mesh"] = "on"
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy"})
	p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "mesh", Operator: corev1.TolerationOpExists})
}

// hostileOps are what others in the cluster do.
func (s *sim) hostileOps(ops []op) []op {
	for _, actor := range []struct {
		name string
		ops  func([]op) []op
	}{
		{"policies", s.policyOps}, {"revisions", s.revisionOps}, {"tenants", s.tenantOps}, {"mutations", s.mutationOps},
		{"people", s.peopleOps}, {"limits", s.limitOps}, {"definitions", s.definitionOps}, {"skews", s.skewOps}, {"restores", s.restoreOps},
		{"slowness", s.webhookOps}, {"strangers", s.strangerOps}, {"stripping", s.strippingOps}, {"guards", s.guardOps},
		{"forgeries", s.forgeryOps}, {"rollouts", s.rolloutOps},
	} {
		if s.cfg.with(actor.name) {
			ops = actor.ops(ops)
		}
	}
	return ops
}

// judgeForeign: nothing is done to what lies in another namespace.
func (s *sim) judgeForeign(r *request) {
	if r.write && r.action.namespace != "" && r.action.namespace != namespace {
		s.blame("foreign", "%s %s, in the namespace %s", r.m.name, r.text, r.action.namespace)
	}
}

// judgeDeleting: of a set that is being deleted no pod is made, and none is updated; and what is being deleted is not adopted.
func (s *sim) judgeDeleting(r *request) {
	verb, firm := r.action.verb, r.m.known.firm
	if slices.Contains([]string{"create", "delete", "patch"}, verb) && !r.m.begun[r.action.pod] &&
		firm(func(k known) bool { return k.set.GetDeletionTimestamp() != nil }) {
		s.blame("deleting", "%s %s, although the set is being deleted", r.m.name, r.text)
	}
	leaves := func(o metav1.Object, name string) bool {
		return o.GetName() == name && o.GetDeletionTimestamp() != nil && metav1.GetControllerOfNoCopy(o) == nil
	}
	// By UID, for the last pod of that name may not be gone yet for the manager.
	if verb == "own" && firm(func(k known) bool {
		p := k.pods[types.UID(r.action.uid)]
		return p != nil && leaves(p, r.action.pod)
	}) {
		s.blame("deleting", "%s %s, which is being deleted", r.m.name, r.text)
	}
	if verb == "own a revision" && firm(func(k known) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(k.revisions)), func(o *appsv1.ControllerRevision) bool { return leaves(o, r.action.image) })
	}) {
		s.blame("deleting", "%s %s, which is being deleted", r.m.name, r.text)
	}
}

// lastPolicy is a policy that comes with an update, when all has come to its end; in runs with orphans the pod that it protects has just lost its owner.
// Updates begin with the last node, so that is protected more often than others. It is false where there is nothing to protect.
func (s *sim) lastPolicy() bool {
	nodes := s.w.nodes()
	if !s.cfg.with("policies") || len(nodes) == 0 {
		return false
	}
	r, answers := rand.New(rand.NewPCG(uint64(s.w.rv), 6)), policyAnswers()
	p := &policy{oneOf(r, policyVerbs()...), nodes[max(r.IntN(len(nodes)), r.IntN(len(nodes)))].Name, answers[r.IntN(len(answers))]}
	s.w.policy = p
	s.w.editSet(func(spec map[string]any) { s.lastEdit(spec, p.verb) })
	s.note("a user edits the image, and a policy refuses to %s pods of %s: %s", p.verb, p.node, p.what)
	for _, pod := range s.podsOn(p.node) {
		if s.cfg.with("orphans") && live(pod) {
			s.w.changePod(pod, func(pod *corev1.Pod) { pod.OwnerReferences = nil })
		}
	}
	return true
}

// lastEdit sets another image, and where the set rolls by itself a budget of one node: so a node that is refused has every opportunity to stand in the way.
func (s *sim) lastEdit(spec map[string]any, verb string) {
	setImage(spec, map[bool]string{true: "v1", false: "v2"}[path.Base(imageOfSet(s.w.set())) == "v2"])
	if s.cfg.dialect == edgeRun {
		return
	}
	if verb == "create" {
		rolling(spec, "0", "1")
	} else {
		rolling(spec, "1", "0")
	}
	if s.cfg.dialect == kruiseRun && verb == "patch" {
		delete(spec, "lifecycle")
		spec["updateStrategy"].(map[string]any)["rollingUpdate"] = map[string]any{"maxUnavailable": int64(1), "rollingUpdateType": "InPlaceIfPossible"}
	}
}

// pacify ends what others do, but for a policy that is to stay.
func (s *sim) pacify() {
	s.w.mutates, s.w.limits, s.w.undefined, s.w.quota, s.w.skew = false, false, false, 0, 0
	s.w.guards, s.w.strips = nil, ""
	clear(s.clocks)
	s.pacifyPeople()
	s.pacifyStrangers()
	s.pacifyWebhook()
	if !s.out.policy {
		s.w.policy = nil
	}
	for _, o := range s.w.all(ofRevisions) {
		if o.GetDeletionTimestamp() != nil {
			s.w.remove(ofRevisions, o.GetName())
		}
	}
}

// protected is an outage of the node that a policy protects.
func (s *sim) protected() (outage, bool) {
	if s.w.policy == nil || s.w.set() == nil || !slices.ContainsFunc(s.w.nodes(), func(n *corev1.Node) bool { return n.Name == s.w.policy.node }) {
		return outage{}, false
	}
	return outage{node: s.w.policy.node, policy: true}, true
}
