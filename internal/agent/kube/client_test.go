// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// server is an API server that has answers for some requests, and remembers what it was asked.
type server struct {
	t       *testing.T
	answers map[string]string // by method and path
	mu      sync.Mutex
	asked   []string
	client  *Client
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, answers: map[string]string{}}
	listener := httptest.NewServer(s)
	t.Cleanup(listener.Close)
	var err error
	if s.client, err = New(&rest.Config{Host: listener.URL}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	w.Header().Set("Content-Type", "application/json")
	answer, ok := s.answers[r.Method+" "+r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	}
	fmt.Fprint(w, answer)
}

// controllerRevision is one in JSON.
func controllerRevision(hash string, number int, owner, image string) string {
	return fmt.Sprintf(`{"metadata":{"name":"set-%s","labels":{"controller-revision-hash":%q},"ownerReferences":[{"kind":"DaemonSet","name":"set","uid":%q,"controller":true}]},
		"revision":%d,"data":{"spec":{"template":{"$patch":"replace","spec":{"containers":[{"name":"c","image":%q}]}}}}}`, hash, hash, owner, number, image)
}

func (s *server) revisions(all ...string) {
	s.answers["GET /apis/apps/v1/namespaces/a/controllerrevisions"] =
		`{"kind":"ControllerRevisionList","apiVersion":"apps/v1","items":[` + strings.Join(all, ",") + `]}`
}

func (s *server) set(uid, strategy string) {
	s.answers["GET /apis/apps.kruise.io/v1beta1/namespaces/a/daemonsets/set"] = fmt.Sprintf(
		`{"kind":"DaemonSet","apiVersion":"apps.kruise.io/v1beta1","metadata":{"name":"set","uid":%q},"spec":{"selector":{"matchLabels":{"app":"a"}},"updateStrategy":{"type":%q}}}`, uid, strategy)
}

func podOf(hash string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "uid-p", Labels: map[string]string{hashLabel: hash}}}
}

func TestNextAdvanced(t *testing.T) {
	old, newest := controllerRevision("r1", 1, "uid-set", "app:1"), controllerRevision("r3", 3, "uid-set", "app:3")
	for _, row := range []struct {
		name      string
		pod       string
		strategy  string
		set       string
		revisions []string
		want      string
	}{
		{"an old pod", "r1", "OnDelete", "uid-set", []string{old, newest, controllerRevision("r2", 2, "uid-set", "app:2")}, "r3"},
		{"a new pod", "r3", "OnDelete", "uid-set", []string{newest, old}, ""},
		{"a pod of the same under another name", "r0", "OnDelete", "uid-set", []string{newest, controllerRevision("r0", 1, "uid-set", "app:3")}, ""},
		{"a pod of the same as another version of the API writes it", "r0", "OnDelete", "uid-set", []string{newest, strings.Replace(
			controllerRevision("r0", 1, "uid-set", "app:3"), `"template":{`, `"template":{"metadata":{"creationTimestamp":null},`, 1)}, ""},
		{"a pod whose revision is gone", "r0", "OnDelete", "uid-set", []string{newest}, "r3"},
		{"a set that is rolled", "r1", "RollingUpdate", "uid-set", []string{old, newest}, ""},
		{"another set of that name", "r1", "OnDelete", "uid-other", []string{old, newest}, ""},
		{"revisions of another set", "r1", "OnDelete", "uid-set", []string{old, controllerRevision("r9", 9, "uid-other", "app:9")}, ""},
		{"no revisions", "r1", "OnDelete", "uid-set", nil, ""},
		{"no set", "r1", "", "", []string{newest}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newServer(t)
			s.revisions(row.revisions...)
			if row.set != "" {
				s.set(row.set, row.strategy)
			}
			got, err := s.client.NextAdvanced(t.Context(), podOf(row.pod), metav1.OwnerReference{Kind: "DaemonSet", Name: "set", UID: "uid-set"})
			if err != nil || got != row.want {
				t.Errorf("it is %q %v, want %q", got, err, row.want)
			}
		})
	}
}

func TestNewest(t *testing.T) {
	r1, r2, r3 := controllerRevision("r1", 1, "uid-set", "app:1"), controllerRevision("r2", 2, "uid-set", "app:2"), controllerRevision("r3", 3, "uid-set", "app:3")
	for _, row := range []struct {
		name      string
		revisions []string
		want      string
	}{
		{"the newest", []string{r2, r1}, "r2"},
		{"not the newest", []string{r2, r3, r1}, "r3"},
		{"after a rollback", []string{r2, controllerRevision("r1", 3, "uid-set", "app:1")}, "r1"},
		{"the newest under another name", []string{r1, r2, controllerRevision("r9", 9, "uid-set", "app:2")}, "r2"},
		{"gone", []string{r1, r3}, "r3"},
		{"newer ones of another set", []string{controllerRevision("r9", 9, "uid-other", "app:9"), r2, r1}, "r2"},
		{"one of that name of another set", []string{controllerRevision("r2", 9, "uid-other", "app:3"), r3}, "r3"},
		{"no revisions", nil, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newServer(t)
			s.revisions(row.revisions...)
			got, err := s.client.Newest(t.Context(), "a", "uid-set", "r2")
			if err != nil || got != row.want {
				t.Errorf("it is %q %v, want %q", got, err, row.want)
			}
			// Whatever a server has in its cache may be too old.
			if want := "GET /apis/apps/v1/namespaces/a/controllerrevisions"; len(s.asked) != 1 || s.asked[0] != want {
				t.Errorf("asked is %q, want %q", s.asked, want)
			}
		})
	}
	if got, err := newServer(t).client.Newest(t.Context(), "a", "uid-set", "r2"); err == nil {
		t.Errorf("a server that fails names %q", got)
	}
}

func TestTemplate(t *testing.T) {
	s := newServer(t)
	s.revisions(controllerRevision("r2", 2, "uid-other", "other:2"), controllerRevision("r2", 2, "uid-set", "app:2"))
	template, err := s.client.Template(t.Context(), "a", "uid-set", "r2")
	if err != nil || template == nil || template.Spec.Containers[0].Image != "app:2" {
		t.Errorf("it is %+v %v", template, err)
	}
	if want := "GET /apis/apps/v1/namespaces/a/controllerrevisions?labelSelector=controller-revision-hash%3Dr2"; s.asked[0] != want {
		t.Errorf("asked is %q, want %q", s.asked, want)
	}
	s.revisions()
	if template, err := s.client.Template(t.Context(), "a", "uid-set", "r2"); err != nil || template != nil {
		t.Errorf("a revision that is gone is %+v %v", template, err)
	}
	s.revisions(`{"metadata":{"ownerReferences":[{"uid":"uid-set","controller":true}]},"data":{"spec":5}}`)
	if template, err := s.client.Template(t.Context(), "a", "uid-set", "r2"); err == nil {
		t.Errorf("a revision that cannot be read is %+v", template)
	}
}

func TestWrites(t *testing.T) {
	s := newServer(t)
	name := types.NamespacedName{Namespace: "a", Name: "p"}
	s.answers["DELETE /api/v1/namespaces/a/pods/p"] = `{"kind":"Status","apiVersion":"v1","status":"Success"}`
	s.answers["PATCH /api/v1/namespaces/a/pods/p/status"] = `{"kind":"Pod","apiVersion":"v1"}`
	if err := s.client.DeletePod(t.Context(), name, metav1.Preconditions{UID: new(types.UID("uid-p"))}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.asked[0], "DELETE /api/v1/namespaces/a/pods/p ") || !strings.Contains(s.asked[0], `"preconditions":{"uid":"uid-p"}`) {
		t.Errorf("asked is %s", s.asked[0])
	}
	if err := s.client.SetCondition(t.Context(), podOf("r1"), corev1.PodCondition{Type: "T", Status: "False", Message: "m"}); err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(s.asked[1], "fieldManager=everynode-agent ")
	patch := struct {
		Metadata map[string]string
		Status   struct{ Conditions []map[string]any }
	}{}
	if err := json.Unmarshal([]byte(body), &patch); err != nil || patch.Metadata["uid"] != "uid-p" || len(patch.Status.Conditions) != 1 {
		t.Fatalf("asked is %s: %v", s.asked[1], err)
	}
	if reason, said := patch.Status.Conditions[0]["reason"]; !said || reason != nil {
		t.Errorf("the reason of before stays: %s", body)
	}
	if err := s.client.DeletePod(t.Context(), types.NamespacedName{Namespace: "a", Name: "gone"}, metav1.Preconditions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a pod that is not there: %v", err)
	}
}

func TestWhoAndWhat(t *testing.T) {
	s := newServer(t)
	review := func(status string) (authenticationv1.UserInfo, bool, error) {
		s.answers["POST /apis/authentication.k8s.io/v1/tokenreviews"] = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":` + status + `}`
		return s.client.Review(t.Context(), "token", "us", "we all")
	}
	if user, ok, err := review(`{"authenticated":true,"user":{"username":"ann"},"audiences":["us"]}`); err != nil || !ok || user.Username != "ann" {
		t.Errorf("it is %+v %v %v", user, ok, err)
	}
	if !strings.Contains(s.asked[0], `"token":"token"`) || !strings.Contains(s.asked[0], `"audiences":["us","we all"]`) {
		t.Errorf("asked is %s", s.asked[0])
	}
	if user, ok, err := review(`{"authenticated":true,"user":{"username":"ann"},"audiences":["them","we all"]}`); err != nil || !ok || user.Username != "ann" {
		t.Errorf("for the other audience it is %+v %v %v", user, ok, err)
	}
	for _, status := range []string{`{}`, `{"audiences":["us"]}`, `{"authenticated":true}`, `{"authenticated":true,"audiences":["them"]}`} {
		if user, ok, err := review(status); err != nil || ok {
			t.Errorf("%s: %+v %v %v", status, user, ok, err)
		}
	}
	for status, want := range map[string]bool{`{"allowed":true}`: true, `{"allowed":false}`: false, `{}`: false} {
		s.answers["POST /apis/authorization.k8s.io/v1/subjectaccessreviews"] = `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":` + status + `}`
		ann := authenticationv1.UserInfo{Username: "ann", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
		got, err := s.client.May(t.Context(), ann, "delete", types.NamespacedName{Namespace: "a", Name: "p"})
		if err != nil || got != want {
			t.Errorf("%s: %v %v", status, got, err)
		}
		for _, part := range []string{`"user":"ann"`, `"groups":["g"]`, `"extra":{"k":["v"]}`, `"namespace":"a"`, `"name":"p"`, `"verb":"delete"`, `"resource":"pods"`} {
			if last := s.asked[len(s.asked)-1]; !strings.Contains(last, part) {
				t.Errorf("asked is %s, without %s", last, part)
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	s := newServer(t)
	if err := s.client.Answers(t.Context()); err == nil {
		t.Error("a server that is not ready answers")
	}
	s.answers["GET /readyz"] = "ok"
	if err := s.client.Answers(t.Context()); err != nil {
		t.Errorf("a server that is ready: %v", err)
	}
}

// Requests that wait for their turn here say nothing about whether the API server answers.
func TestAnswersDoesNotWaitForOtherRequests(t *testing.T) {
	s := newServer(t)
	s.answers["GET /readyz"] = "ok"
	ctx, cancel := context.WithCancel(t.Context())
	others := sync.WaitGroup{}
	defer others.Wait()
	defer cancel()
	began := make(chan struct{}, 100)
	for range cap(began) {
		others.Go(func() {
			began <- struct{}{}
			_ = s.client.DeletePod(ctx, types.NamespacedName{Namespace: "a", Name: "p"}, metav1.Preconditions{}) // it is cut off
		})
	}
	for range cap(began) {
		<-began
	}
	soon, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	if err := s.client.Answers(soon); err != nil {
		t.Error(err)
	}
}
