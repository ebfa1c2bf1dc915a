// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/harness"
)

// What others in the cluster do to a set of seven nodes, with a budget of one. Upstream's controller passes all of these.
const neighbourNodes = 7

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
			remove := s.Apply(s.PodPolicy(test.operation, expression))
			if test.operation == "DELETE" {
				s.InForce("this one is protected", "", "delete", "pod", protected.Name, "--dry-run=server")
			} else {
				s.InForce("this one is protected", podOn(node), "create", "--dry-run=server", "-f", "-")
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
	remove := s.Apply(webhook(s, "DELETE", "Fail", url, cert))
	s.InForce("failed calling webhook", "", "delete", "pod", s.View().Pods("ds")[0].Name, "--dry-run=server")
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
	s.Apply(webhook(s, "CREATE", "Ignore", server.URL, certificateOf(server)))
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
	remove := s.Apply(webhook(s, "CREATE", "Fail", server.URL, certificateOf(server)))
	s.InForce("not here", podOn("any"), "create", "--dry-run=server", "-f", "-")
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
