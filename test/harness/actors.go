// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Subject is a set of any dialect, with a budget of one node, that others in the cluster interfere with. The suites of all dialects play the same with it:
// upstream's controller passes all of these.
type Subject struct {
	*Space
	// Set is its name, and APIVersion and Kind are what its pods name as their owner.
	Set, APIVersion, Kind string
	// Create writes the set. Roll changes its image to Image. Touch changes minReadySeconds, which restarts no pod.
	Create, Roll func()
	Touch        func(seconds int)
	Image        string
	// UID is the UID of the set.
	UID func() types.UID
}

// protected is the message of the policy and of the webhooks.
const protected = "this one is protected"

// running is met when every one of these nodes has a ready pod, with the new image if updated is set.
func (s *Subject) running(updated bool, nodes ...string) Condition {
	return func(v View) error {
		for _, node := range nodes {
			pod := v.PodOn(s.Set, node)
			if pod == nil || pod.DeletionTimestamp != nil || !Ready(pod) || updated != (pod.Spec.Containers[0].Image == s.Image) {
				return fmt.Errorf("node %s has no ready pod of the wanted version", node)
			}
		}
		return nil
	}
}

// count is met when that many nodes have a ready pod.
func (s *Subject) count(nodes int) Condition {
	return func(v View) error {
		ready := map[string]bool{}
		for _, pod := range v.Pods(s.Set) {
			if pod.DeletionTimestamp == nil && Ready(pod) {
				ready[pod.Spec.NodeName] = true
			}
		}
		if len(ready) != nodes {
			return fmt.Errorf("%d nodes have a ready pod, want %d", len(ready), nodes)
		}
		return nil
	}
}

// says is met when an event of the set has the text.
func (s *Subject) says(text string) Condition {
	return func(v View) error {
		for _, reason := range []string{"FailedCreate", "FailedDelete", "FailedUpdatePodInPlace"} {
			if event := v.Event(s.Set, reason); event != nil && strings.Contains(event.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("no event of the set has %q", text)
	}
}

// run creates the set and waits until every node has its pod.
func (s *Subject) run() {
	s.t.Helper()
	s.Create()
	s.Wait("the set runs on every node", s.running(false, s.Nodes...))
}

// Plugin runs kubectl-everynode in the namespace of the space.
func (s *Space) Plugin(args ...string) (string, error) {
	s.t.Helper()
	path, err := binary("kubectl-everynode")
	if err != nil {
		s.t.Fatal(err)
	}
	command := exec.CommandContext(s.ctx, path, append(args, "--namespace", s.Name)...)
	command.Env = append(command.Environ(), "KUBECONFIG="+s.Cluster.Plane.Kubeconfig())
	out, err := command.CombinedOutput()
	return string(out), err
}

// OneProtectedPod has a policy keep an operation, in capitals, from the pod of the first or the last node: DELETE, UPDATE, or the CREATE of a new one. All others
// are updated, an event and explain-node name the policy, and the last node follows when the policy has gone.
func (s *Subject) OneProtectedPod(operation string, last bool) {
	s.t.Helper()
	s.run()
	nodes := slices.Sorted(slices.Values(s.Nodes))
	at := 0
	if last {
		at = len(nodes) - 1
	}
	node, others := nodes[at], slices.Delete(slices.Clone(nodes), at, at+1)
	kept := s.View().PodOn(s.Set, node)
	expression := fmt.Sprintf("oldObject.metadata.name != '%s'", kept.Name)
	probe, manifest := []string{"delete", "pod", kept.Name, "--dry-run=server"}, ""
	switch operation {
	case "UPDATE":
		probe = []string{"annotate", "pod", kept.Name, "probe=yes", "--dry-run=server"}
	case "CREATE":
		expression = fmt.Sprintf("!has(object.spec.affinity) || object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.all(t, t.matchFields.all(f, !('%s' in f.values)))", node)
		probe, manifest = []string{"create", "--dry-run=server", "-f", "-"}, podOn(node)
	}
	remove := s.Apply(s.PodPolicy(operation, expression))
	s.InForce(protected, manifest, probe...)
	began := time.Now()
	s.Roll()
	s.WaitFor(90*time.Second, "all others are updated", s.running(true, others...))
	s.t.Logf("all others were updated after %s", time.Since(began).Round(time.Second))
	if now := s.View().PodOn(s.Set, node); now == nil || now.UID != kept.UID || now.Spec.Containers[0].Image == s.Image {
		s.t.Errorf("the protected pod has gone, or was updated")
	}
	s.Wait("an event names the policy", s.says(protected))
	s.isShown(node)
	remove()
	removed := time.Now()
	s.WaitFor(time.Minute, "the last one follows", s.running(true, nodes...))
	s.t.Logf("the last one followed after %s", time.Since(removed).Round(time.Second))
}

// isShown waits until explain-node names the policy, and the metric has this one node.
func (s *Subject) isShown(node string) {
	s.t.Helper()
	if !s.Cluster.managed {
		s.t.Log("SKIPPED: explain-node and the metric of the protected node; kube-controller-manager has neither")
		return
	}
	s.Prints([]string{"explain-node", node, s.Set}, protected, fmt.Sprintf("ValidatingAdmissionPolicy '%s'", s.Name))
	s.Poll("one node is blocked in the metrics", func() error {
		blocked, err := s.Cluster.Gauge(s.ctx, ManagerComponent, "everynode_set_verdicts", map[string]string{"verdict": "blocked", "namespace": s.Name, "name": s.Set})
		if err == nil && blocked != 1 {
			err = fmt.Errorf("%v are", blocked)
		}
		return err
	})
}

// Prints runs kubectl everynode until it prints all of these texts: what it reads may be written a moment later.
func (s *Space) Prints(args []string, all ...string) {
	s.t.Helper()
	s.Poll("kubectl everynode "+strings.Join(args, " "), func() error {
		out, err := s.Plugin(args...)
		if err != nil {
			return fmt.Errorf("%w:\n%s", err, out)
		}
		for _, text := range all {
			if !strings.Contains(out, text) {
				return fmt.Errorf("it does not print %q:\n%s", text, out)
			}
		}
		return nil
	})
}

// podOn is a pod for a node, as a DaemonSet has them.
func podOn(node string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: probe}
spec:
  containers: [{name: c, image: registry.example/probe}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [%s]}]}]}}}
`, node)
}

// ADeleteWebhookThatIsDown keeps no pod from a node that joins.
func (s *Subject) ADeleteWebhookThatIsDown() {
	s.t.Helper()
	s.run()
	remove := s.Webhook(WebhookThatIsDown(), "DELETE", "Fail")
	s.InForce("failed calling webhook", "", "delete", "pod", s.View().Pods(s.Set)[0].Name, "--dry-run=server")
	s.Roll()
	s.Wait("an event has the message", s.says("failed calling webhook"))
	s.AddFreshNode()
	joined := time.Now()
	s.WaitFor(10*time.Second, "the node that has joined has a pod", func(v View) error {
		if n := len(v.Pods(s.Set)); n != len(s.Nodes) {
			return fmt.Errorf("%d pods on %d nodes", n, len(s.Nodes))
		}
		return nil
	})
	s.t.Logf("the node that has joined had a pod after %s", time.Since(joined).Round(100*time.Millisecond))
	remove()
	s.WaitFor(2*time.Minute, "the roll ends", s.running(true, s.Nodes...))
}

// AWebhookThatNeverAnswers makes no pod impossible where its failures are ignored.
func (s *Subject) AWebhookThatNeverAnswers() {
	s.t.Helper()
	s.Webhook(SilentWebhook(s.t), "CREATE", "Ignore")
	began := time.Now()
	s.Create()
	s.WaitFor(time.Minute, "all pods are there", s.count(len(s.Nodes)))
	s.t.Logf("all pods were ready after %s", time.Since(began).Round(time.Second))
}

// MutatorsThatNeverAnswer make no pod impossible either. The API server calls one after the other; it ends every write after 34 s, so these take almost as long as
// a write may take.
func (s *Subject) MutatorsThatNeverAnswer() {
	s.t.Helper()
	s.SilentMutators(18*time.Second, 12*time.Second)
	began := time.Now()
	s.Create()
	s.WaitFor(3*time.Minute, "all pods are there", s.count(len(s.Nodes)))
	if took := time.Since(began); took < 30*time.Second {
		s.t.Errorf("all pods were ready after %s, so nothing has waited for the webhooks", took)
	}
	s.t.Logf("all pods were ready after %s", time.Since(began).Round(time.Second))
}

// AWebhookThatDeniesWithoutACode is shown by an event and by explain-node; the API server makes a 400 of it.
func (s *Subject) AWebhookThatDeniesWithoutACode() {
	s.t.Helper()
	remove := s.Webhook(LateWebhook(s.t, 0, false, protected), "CREATE", "Fail")
	s.InForce(protected, podOn("any"), "create", "--dry-run=server", "-f", "-")
	began := time.Now()
	s.Create()
	s.WaitFor(10*time.Second, "an event has the message", s.says(protected))
	s.t.Logf("an event had the message after %s", time.Since(began).Round(100*time.Millisecond))
	if s.Cluster.managed {
		s.Prints([]string{"explain-node", s.Nodes[0], s.Set}, protected)
		s.t.Logf("explain-node had it after %s", time.Since(began).Round(100*time.Millisecond))
	}
	remove()
	s.WaitFor(time.Minute, "all pods are there", s.count(len(s.Nodes)))
}

// ARevisionWithAFinalizer deletes the only revision, which a foreign finalizer keeps for a while. No pod is restarted, neither then nor
// when it has gone.
func (s *Subject) ARevisionWithAFinalizer() {
	s.t.Helper()
	s.run()
	before := UIDs(s.View().Pods(s.Set))
	unharmed := func(when string) {
		s.t.Helper()
		if now := UIDs(s.View().Pods(s.Set)); fmt.Sprint(now) != fmt.Sprint(before) {
			s.t.Errorf("%s: the pods %v became %v", when, before, now)
		}
	}
	revision := strings.TrimSpace(s.Kubectl("get", "controllerrevisions", "-o", "name"))
	s.Kubectl("patch", revision, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/foreign"]}}`)
	s.Kubectl("delete", revision, "--wait=false")
	s.Touch(1)
	unharmed("it is being deleted")
	s.Kubectl("patch", revision, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	s.Poll("there is one again", func() error {
		if out := s.Kubectl("get", "controllerrevisions", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}{.items[*].metadata.name}"); out != strings.TrimPrefix(revision, "controllerrevision.apps/") {
			return fmt.Errorf("revisions: %s", out)
		}
		return nil
	})
	s.Touch(2)
	unharmed("it has gone")
}

// stranger is a pod that looks like one of the set, and is none.
type stranger struct {
	name, apiVersion, kind, owner string
	uid                           types.UID
}

// PodsOfStrangers plays that pods that name the set as their owner from another namespace, or with another UID or kind, and pods with its labels that another owner controls, take
// no part in it, whether they run or are being deleted.
func (s *Subject) PodsOfStrangers(t testing.TB, tenant *Space) {
	t.Helper()
	s.run()
	before, uid := UIDs(s.View().Pods(s.Set)), s.UID()
	s.Kubectl("create", "configmap", "other")
	other := types.UID(s.Kubectl("get", "configmap", "other", "-o", "jsonpath={.metadata.uid}"))
	const nobody = "11111111-2222-3333-4444-555555555555"
	s.admit(t, tenant, stranger{"elsewhere", s.APIVersion, s.Kind, s.Set, uid}, stranger{"elsewhere-old", "extensions/v1beta1", s.Kind, s.Set, uid})
	s.admit(t, s.Space, stranger{"other-uid", s.APIVersion, s.Kind, s.Set, nobody}, stranger{"other-kind", "apps/v1", "ReplicaSet", s.Set, uid}, stranger{"controlled", "v1", "ConfigMap", "other", other})
	s.Touch(1)
	for _, pod := range s.View().AllPods() {
		if strings.HasPrefix(pod.Name, "controlled-") && (pod.DeletionTimestamp != nil || len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].UID != other) {
			t.Errorf("pod %s of another controller was deleted at %v, or has other owners: %v", pod.Name, pod.DeletionTimestamp, pod.OwnerReferences)
		}
	}
	for _, space := range []*Space{tenant, s.Space} {
		space.Kubectl("delete", "pods", "--selector=strangers", "--wait=false")
	}
	s.Touch(2)
	if now := UIDs(s.View().Pods(s.Set)); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("the pods %v became %v", before, now)
	}
	s.Roll()
	s.Wait("the roll ends", s.running(true, s.Nodes...))
}

// admit runs a pod of each stranger on each node of the set, in a namespace. They stay, while they are being deleted, until the test ends.
func (s *Subject) admit(t testing.TB, space *Space, strangers ...stranger) {
	t.Helper()
	var manifest strings.Builder
	for i, node := range s.Nodes {
		for _, pod := range strangers {
			fmt.Fprintf(&manifest, `
---
apiVersion: v1
kind: Pod
metadata:
  name: %s-%d
  labels: {app: %s, strangers: ""}
  finalizers: [example.com/somebody]
  ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: %s, controller: true}]
spec:
  nodeName: %s
  tolerations: [{operator: Exists}]
  containers: [{name: c, image: registry.example/stranger}]
`, pod.name, i, s.Set, pod.apiVersion, pod.kind, pod.owner, pod.uid, node)
		}
	}
	if out, err := space.KubectlWith(manifest.String(), "create", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		ctx, pods := context.WithoutCancel(t.Context()), space.Cluster.Client.CoreV1().Pods(space.Name)
		for i := range s.Nodes {
			for _, pod := range strangers {
				_, err := pods.Patch(ctx, fmt.Sprint(pod.name, "-", i), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					t.Error(err)
				}
			}
		}
	})
}
