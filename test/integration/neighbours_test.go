// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/harness"
)

// What others in the cluster do to a set of seven nodes, with a budget of one. Upstream's controller passes all of these.
const neighbourNodes = 7

// apply applies cluster-wide objects, and removes them at the end of the test.
func apply(t *testing.T, s *harness.Space, manifest string) (remove func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Cluster.Kubectl(t.Context(), "apply", "-f", file); err != nil {
		t.Fatalf("applying:\n%s\n%v: %s", manifest, err, out)
	}
	remove = sync.OnceFunc(func() {
		if out, err := s.Cluster.Kubectl(context.WithoutCancel(t.Context()), "delete", "-f", file); err != nil {
			t.Errorf("deleting what was applied: %v: %s", err, out)
		}
	})
	t.Cleanup(remove)
	return remove
}

// policy is a ValidatingAdmissionPolicy for pods of a namespace.
func policy(s *harness.Space, operation, expression string) string {
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [%[2]s], resources: [pods]}]
  validations: [{expression: %[3]q, message: this one is protected}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}
`, s.Name, operation, expression)
}

// webhook is a ValidatingWebhookConfiguration for pods of a namespace.
func webhook(s *harness.Space, operation, failurePolicy, url string, cert []byte) string {
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: pods.neighbour.example
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: %[3]s
  clientConfig: {url: %[4]q, caBundle: %[5]s}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [%[2]s], resources: [pods]}]
`, s.Name, operation, failurePolicy, url, base64.StdEncoding.EncodeToString(cert))
}

func certificateOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// updatedBut is met when the pods of the set run the image, but for those on nodes that are named.
func updatedBut(image string, nodes int, held ...string) harness.Condition {
	return func(v harness.View) error {
		updated := 0
		for _, p := range v.Pods("ds") {
			if p.Spec.Containers[0].Image == image && p.DeletionTimestamp == nil && harness.Ready(p) {
				updated++
			}
		}
		if want := nodes - len(held); updated != want {
			return fmt.Errorf("%d pods run %s and are ready, want %d", updated, image, want)
		}
		return nil
	}
}

// inForce waits until a probing command is refused: policies and webhooks take a moment to be known to the API server.
func inForce(s *harness.Space, words, manifest string, args ...string) {
	s.Poll("the API server knows the policy", func() error {
		if out, err := s.KubectlWith(manifest, args...); err == nil || !strings.Contains(out, words) {
			return fmt.Errorf("it is not refused with %q: %s", words, out)
		}
		return nil
	})
}

// TestOneProtectedPod: a policy protects the pod of one node, the first or the last, from being deleted, or keeps a new one from it. All others
// are updated, and it follows when the policy has gone.
func TestOneProtectedPod(t *testing.T) {
	c := cluster(t)
	for _, test := range []struct {
		name, operation, unavailable, surge string
		at                                  int
	}{
		{"DeleteOnTheFirstNode", "DELETE", "1", "0", 0},
		{"DeleteOnTheLastNode", "DELETE", "1", "0", neighbourNodes - 1},
		{"CreateWithSurge", "CREATE", "0", "1", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := c.Space(t, neighbourNodes)
			s.Run("ds", harness.WithBudget(test.unavailable, test.surge))
			pods := s.View().Pods("ds")
			var node string
			for _, p := range pods {
				earlier, later := test.at == 0 && p.Spec.NodeName < node, test.at > 0 && p.Spec.NodeName > node
				if node == "" || earlier || later {
					node = p.Spec.NodeName
				}
			}
			protected := s.View().PodOn("ds", node)
			expression := fmt.Sprintf("oldObject.metadata.name != '%s'", protected.Name)
			if test.operation == "CREATE" {
				expression = fmt.Sprintf("!has(object.spec.affinity) || object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.all(t, t.matchFields.all(f, !('%s' in f.values)))", node)
			}
			remove := apply(t, s, policy(s, test.operation, expression))
			if test.operation == "DELETE" {
				inForce(s, "this one is protected", "", "delete", "pod", protected.Name, "--dry-run=server")
			} else {
				inForce(s, "this one is protected", podOn(node), "create", "--dry-run=server", "-f", "-")
			}
			began := time.Now()
			written := s.Update("ds", harness.WithImage(harness.Image2))
			s.WaitFor(90*time.Second, "all others are updated", updatedBut(harness.Image2, neighbourNodes, node))
			t.Logf("all others were updated after %s", time.Since(began).Round(time.Second))
			if kept := s.View().PodOn("ds", node); kept == nil || kept.UID != protected.UID {
				t.Errorf("the protected pod is gone")
			}
			reason := "FailedDelete"
			if test.operation == "CREATE" {
				reason = "FailedCreate"
			}
			s.Wait("an event tells of it", harness.HasEvent("ds", corev1.EventTypeWarning, reason))
			remove()
			removed := time.Now()
			s.WaitFor(time.Minute, "the last one follows", harness.RolledOut("ds", written.Generation, neighbourNodes))
			t.Logf("the last one followed after %s", time.Since(removed).Round(time.Second))
		})
	}
}

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

// TestADeleteWebhookThatIsDown keeps no pod from a node that joins.
func TestADeleteWebhookThatIsDown(t *testing.T) {
	s := cluster(t).Space(t, neighbourNodes)
	s.Run("ds", harness.WithBudget("1", "0"))
	server := httptest.NewTLSServer(http.NotFoundHandler())
	cert, url := certificateOf(server), server.URL
	server.Close()
	remove := apply(t, s, webhook(s, "DELETE", "Fail", url, cert))
	inForce(s, "failed calling webhook", "", "delete", "pod", s.View().Pods("ds")[0].Name, "--dry-run=server")
	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("an event tells of it", harness.HasEvent("ds", corev1.EventTypeWarning, "FailedDelete"))
	s.AddFreshNode()
	s.WaitFor(10*time.Second, "the node that has joined has a pod", func(v harness.View) error {
		if n := len(v.Pods("ds")); n != neighbourNodes+1 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	remove()
	s.WaitFor(2*time.Minute, "the roll ends", harness.RolledOut("ds", written.Generation, neighbourNodes+1))
}

// TestAWebhookThatNeverAnswers, and that may be ignored then, makes no pod impossible.
func TestAWebhookThatNeverAnswers(t *testing.T) {
	s := cluster(t).Space(t, neighbourNodes)
	end := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(end) })
	apply(t, s, webhook(s, "CREATE", "Ignore", server.URL, certificateOf(server)))
	began := time.Now()
	set := s.Create("ds")
	s.WaitFor(time.Minute, "all pods are there", harness.RolledOut("ds", set.Generation, neighbourNodes))
	t.Logf("all pods were ready after %s", time.Since(began).Round(time.Second))
}

// TestAWebhookThatDeniesWithoutACode, which the API server turns into 400, shows.
func TestAWebhookThatDeniesWithoutACode(t *testing.T) {
	s := cluster(t).Space(t, neighbourNodes)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		review := admissionv1.AdmissionReview{}
		if err = errors.Join(err, json.Unmarshal(body, &review)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "not here"}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	remove := apply(t, s, webhook(s, "CREATE", "Fail", server.URL, certificateOf(server)))
	inForce(s, "not here", podOn("any"), "create", "--dry-run=server", "-f", "-")
	set := s.Create("ds")
	s.WaitFor(10*time.Second, "an event tells of it", func(v harness.View) error {
		event := v.Event("ds", "FailedCreate")
		if event == nil || !strings.Contains(event.Message, "not here") {
			return fmt.Errorf("event %v", event)
		}
		return nil
	})
	remove()
	s.WaitFor(time.Minute, "all pods are there", harness.RolledOut("ds", set.Generation, neighbourNodes))
}
