// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/test/harness"
)

// hesitation is for how long the webhook of this test thinks about a write: longer than the API server may be at work on one.
const hesitation = executor.Fence + 3*time.Second

// hesitant is a webhook that lets pods with this label be written, and removed, after it has thought about it.
const hesitant = "everynode.dev/hesitant"

// curtainUp is what it answers at once, and refuses, while nothing is to be written.
const curtainUp = "it is asked now"

// TestWritesEndWithinTheFence: a new leader waits for executor.Fence, and reads what there is then. That is enough only where the API server begins
// nothing with a write after the time that the write allows it, whatever it waits for, and whether that may be left out or not.
func TestWritesEndWithinTheFence(t *testing.T) {
	c := cluster(t)
	long(t)
	for _, policy := range []registrationv1.FailurePolicyType{registrationv1.Fail, registrationv1.Ignore} {
		t.Run(string(policy), func(t *testing.T) {
			s := c.Space(t, 1)
			asked, thought := hesitate(t, s, policy)
			pods := s.Cluster.Client.CoreV1().Pods(s.Name)
			there, err := pods.Create(t.Context(), podOf(s, "there", nil), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			// Only now it is one that the webhook is asked about.
			label := []byte(`{"metadata":{"labels":{"` + hesitant + `":"yes"}}}`)
			if _, err := pods.Patch(t.Context(), there.Name, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			fence := time.After(executor.Fence) // from before the writes are sent
			var sent sync.WaitGroup
			sent.Go(func() {
				refused(t, s, "create", s.Cluster.Client.CoreV1().RESTClient().Post().Body(podOf(s, "late", map[string]string{hesitant: "yes"})))
			})
			sent.Go(func() { refused(t, s, "delete", s.Cluster.Client.CoreV1().RESTClient().Delete().Name(there.Name)) })
			asked.Wait()
			sent.Wait()
			<-fence
			list, err := pods.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Items) != 1 || list.Items[0].DeletionTimestamp != nil {
				t.Errorf("when the fence is over: %v", list.Items)
			}
			thought.Wait()
			// Whatever the answers of the webhook bring about comes before a pod that is made after them.
			marker, err := pods.Create(t.Context(), podOf(s, "marker", nil), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			events, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer events.Stop()
			for event := range events.ResultChan() {
				pod, ok := event.Object.(*corev1.Pod)
				switch {
				case !ok:
					t.Fatalf("the watch says %v", event)
				case pod.UID == marker.UID:
					return
				case pod.Name == "late" || pod.DeletionTimestamp != nil:
					t.Errorf("a write took effect after the fence: %s of %s", event.Type, pod.Name)
				}
			}
			t.Error("the watch has ended")
		})
	}
}

// refused sends a write of a pod that the webhook thinks about for too long. It allows the API server as much time as the manager does, and waits for
// the answer as long as it takes: a manager that stands still does not end its requests.
func refused(t *testing.T, s *harness.Space, what string, request *rest.Request) {
	if err := request.Namespace(s.Name).Resource("pods").Param("timeout", executor.Fence.String()).Do(t.Context()).Error(); err == nil {
		t.Errorf("a %s that the webhook thinks about for too long succeeds", what)
	}
}

// hesitate makes the API server ask a webhook about pods of a namespace with the label hesitant. It has been asked about two writes, a create and a
// delete, when the first is done, and has answered both when the second is.
func hesitate(t *testing.T, s *harness.Space, policy registrationv1.FailurePolicyType) (asked, thought *sync.WaitGroup) {
	t.Helper()
	asked, thought = &sync.WaitGroup{}, &sync.WaitGroup{}
	asked.Add(2)
	thought.Add(2)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			t.Errorf("the API server asks %v: %v", review, err)
			return
		}
		rehearsal := review.Request.DryRun != nil && *review.Request.DryRun
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: !rehearsal, Result: &metav1.Status{Message: curtainUp}}
		if !rehearsal {
			asked.Done()
			defer thought.Done()
			select {
			case <-time.After(hesitation):
			case <-t.Context().Done():
			}
		}
		_ = json.NewEncoder(w).Encode(review) // somebody may listen no more
	}))
	t.Cleanup(server.Close)
	url, timeout, none := server.URL+"/think", int32(30), registrationv1.SideEffectClassNone
	configuration := &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Webhooks: []registrationv1.MutatingWebhook{{
			Name: "think.everynode.dev", FailurePolicy: &policy, TimeoutSeconds: &timeout, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      registrationv1.WebhookClientConfig{URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Name}},
			ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{hesitant: "yes"}},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Delete},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}
	configurations := s.Cluster.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := configurations.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := configurations.Delete(context.WithoutCancel(t.Context()), s.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	s.Poll("a webhook that is asked", func() error {
		_, err := s.Cluster.Client.CoreV1().Pods(s.Name).Create(t.Context(), podOf(s, "rehearsal", map[string]string{hesitant: "yes"}), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), curtainUp) {
			return fmt.Errorf("it is not asked yet: %w", err)
		}
		return nil
	})
	return asked, thought
}

// podOf is a pod that nobody runs: its node is none.
func podOf(s *harness.Space, name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.local/a:1"}}, NodeSelector: map[string]string{"no": "node"}},
	}
}
