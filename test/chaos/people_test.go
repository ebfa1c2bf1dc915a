// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const (
	// meshLabel is on the pods that changePods has changed.
	meshLabel = "example.com/mesh"
	// foreign is the finalizer of finalize.
	foreign = "example.com/foreign"
)

// mutation has a policy change the pods that managers create, by patches of JSON in CEL, where all of the conditions are met.
func (p *play) mutation(patches []string, conditions ...string) (remove func()) {
	p.t.Helper()
	var match strings.Builder
	for i, condition := range append([]string{fromManager}, conditions...) {
		fmt.Fprintf(&match, "{name: condition-%d, expression: %q}, ", i, condition)
	}
	return p.Apply(fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  matchConditions: [%[2]s]
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: %[3]q}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}
`, p.Name, match.String(), "["+strings.Join(patches, ", ")+"]"))
}

// changePods has a policy give new pods a label, a container and a toleration, as a service mesh and administrators do.
func (p *play) changePods(f fault) {
	p.t.Helper()
	remove := p.mutation([]string{
		fmt.Sprintf(`JSONPatch{op: "add", path: "/metadata/labels/%s", value: "yes"}`, strings.ReplaceAll(meshLabel, "/", "~1")),
		`JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "mesh", image: "registry.example/mesh:1"}}`,
		`JSONPatch{op: "add", path: "/spec/tolerations/-", value: Object.spec.tolerations{key: "example.com/mesh", operator: "Exists"}}`,
	}, "has(object.spec.tolerations)")
	p.beginRoll()
	p.busy(f.hold + grace)
	remove()
}

// takeLabels has a policy take from new pods what managers know their revision by: the hash, the generation, or both.
func (p *play) takeLabels(f fault) {
	p.t.Helper()
	const hash, generation = appsv1.DefaultDaemonSetUniqueLabelKey, extensionsv1beta1.DaemonSetTemplateGenerationKey
	var patches, conditions []string
	for _, label := range [][]string{{hash}, {generation}, {hash, generation}}[p.random.IntN(3)] {
		patches = append(patches, fmt.Sprintf(`JSONPatch{op: "remove", path: "/metadata/labels/%s"}`, label))
		conditions = append(conditions, fmt.Sprintf("'%s' in object.metadata.labels", label))
	}
	remove := p.mutation(patches, conditions...)
	p.beginRoll()
	p.busy(f.hold + grace)
	remove()
}

// finalize has people put a finalizer on pods of all sets, and on all revisions of one set, and delete these revisions and half of the pods in the middle of a
// roll. Managers delete some of the others. Later the finalizers are taken off.
func (p *play) finalize(f fault) {
	p.t.Helper()
	p.beginRoll()
	const put = `{"metadata":{"uid":%q,"finalizers":["` + foreign + `"]}}`
	for _, m := range p.members {
		pods := p.View().Pods(m.name)
		for n, i := range p.random.Perm(len(pods))[:min(len(pods), max(2, len(p.Nodes)*f.nodes/100))] {
			pod := pods[i]
			if pod.DeletionTimestamp != nil {
				continue
			}
			p.patch("pods", pod.Name, fmt.Sprintf(put, pod.UID))
			if n%2 == 0 {
				p.ledger.Excuse(pod.UID)
				p.delete("pods", pod.Name, pod.UID)
			}
		}
	}
	m := p.members[p.random.IntN(len(p.members))]
	for _, revision := range p.View().Revisions() {
		if owner := metav1.GetControllerOf(revision); owner != nil && owner.Name == m.name {
			p.patch("controllerrevisions", revision.Name, fmt.Sprintf(put, revision.UID))
			p.delete("controllerrevisions", revision.Name, revision.UID)
		}
	}
	p.t.Logf("the revisions of set %s were deleted", m.name)
	p.busy(f.hold + grace)
	p.unfinalize()
}

// unfinalize takes the finalizers off.
func (p *play) unfinalize() {
	p.t.Helper()
	const take = `{"metadata":{"uid":%q,"finalizers":null}}`
	for _, pod := range p.View().AllPods() {
		if len(pod.Finalizers) > 0 {
			p.patch("pods", pod.Name, fmt.Sprintf(take, pod.UID))
		}
	}
	for _, revision := range p.View().Revisions() {
		if len(revision.Finalizers) > 0 {
			p.patch("controllerrevisions", revision.Name, fmt.Sprintf(take, revision.UID))
		}
	}
}

// of is the client for a resource that finalize is about.
func (p *play) of(resource string) rest.Interface {
	if resource == "pods" {
		return p.Cluster.Client.CoreV1().RESTClient()
	}
	return p.Cluster.Client.AppsV1().RESTClient()
}

func (p *play) patch(resource, name, patch string) {
	p.t.Helper()
	p.Poll("a user can change "+resource, func() error {
		return gone(p.of(resource).Patch(types.MergePatchType).Namespace(p.Name).Resource(resource).Name(name).Body([]byte(patch)).Do(p.Context()).Error())
	})
}

func (p *play) delete(resource, name string, uid types.UID) {
	p.t.Helper()
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	p.Poll("a user can delete "+resource, func() error {
		return gone(p.of(resource).Delete().Namespace(p.Name).Resource(resource).Name(name).Body(options).Do(p.Context()).Error())
	})
}

// gone drops the error of what is not there any more, or another object now.
func gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) { // a finalizer cannot be added to what is being deleted
		return nil
	}
	return err
}

// judgePeople fails where nothing was changed by the policies, or no finalizer has kept anything.
func (p *play) judgePeople() {
	p.t.Helper()
	changed, bare, kept, revisions := 0, 0, 0, 0
	for _, m := range p.members {
		log, _ := p.ledger.Of(m.name, m.limit)
		for _, event := range log {
			switch o := event.Object.(type) {
			case *corev1.Pod:
				if _, has := o.Labels[meshLabel]; has && len(o.Spec.Containers) > 1 {
					changed++
				}
				if o.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] == "" || o.Labels[extensionsv1beta1.DaemonSetTemplateGenerationKey] == "" && !m.advanced {
					bare++
				}
				if o.DeletionTimestamp != nil && len(o.Finalizers) > 0 {
					kept++
				}
			case *appsv1.ControllerRevision:
				if o.DeletionTimestamp != nil && len(o.Finalizers) > 0 {
					revisions++
				}
			}
		}
	}
	p.t.Logf("changes of pods that a policy has given a container %d, taken labels from %d, finalizers held %d, and of revisions %d", changed, bare, kept, revisions)
	for who, count := range map[string]int{string(changePods): changed, string(takeLabels): bare, string(finalize) + ", pods": kept, string(finalize) + ", revisions": revisions} {
		if count == 0 {
			p.t.Errorf("%s: nothing of it was recorded, so nothing is known of it", who)
		}
	}
}
