// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

func TestAJob(t *testing.T) {
	job := newJob("default", "pull", 2)
	job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(1))
	w := newWorld(t, append(append(append(node("a"), node("b")...), node("c")...), job)...)
	w.mustPass(job)
	if s := read(w, job).Status; w.begun() != 2 || s.Active != 2 || s.Desired != 3 || s.StartTime == nil {
		t.Fatalf("%d nodes were told: %+v", w.begun(), s)
	}
	w.restart()
	w.mustPass(job)
	if w.begun() != 2 {
		t.Error("another manager has told more nodes")
	}
	before := w.writes.Load()
	w.mustPass(job)
	if now := w.writes.Load(); now != before {
		t.Errorf("%d writes although nothing has happened", now-before)
	}
	w.report("a", v1beta1.ImagePhaseSucceeded)
	w.report("b", v1beta1.ImagePhaseFailed)
	w.mustPass(job)
	w.report("c", v1beta1.ImagePhaseSucceeded)
	w.mustPass(job)
	if s := read(w, job).Status; s.Succeeded != 2 || s.Failed != 1 || s.CompletionTime == nil || !slices.Equal(s.FailedNodes, []string{"b"}) {
		t.Errorf("ended as %+v", s)
	}
	want := []string{
		"Warning PullImageFailed Failed to pull image agent:2 on node b for m",
		"Warning Completed image agent:2 is there on 2 of 3 nodes, and was given up on 1",
	}
	if got := w.told(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	w.mustPass(job)
	if read(w, job) != nil {
		t.Error("the job outlives its time")
	}
	w.mustPass(job)
}

// While it is not known whether a node was told, no other is told in its place.
func TestAnAnswerThatDoesNotCome(t *testing.T) {
	for _, effect := range []bool{false, true} {
		job := newJob("default", "pull", 1)
		w := newWorld(t, append(append(node("a"), node("b")...), job)...)
		w.patchErr = func(string) (error, bool) { return errors.New("timeout"), effect }
		if _, err := w.pass(job); err == nil {
			t.Fatal("no error")
		}
		if s := read(w, job).Status; s.StartTime != nil {
			t.Errorf("the status says what is not known: %+v", s)
		}
		w.patchErr = nil
		w.mustPass(job)
		if got := w.begun(); got != 1 || len(w.image("a").Spec.Images) != 1 {
			t.Errorf("effect %t: %d nodes were told, want a alone", effect, got)
		}
	}
}

func TestANodeImageThatHasChanged(t *testing.T) {
	job := newJob("default", "pull", 1)
	w := newWorld(t, append(node("a"), job)...)
	w.patchErr = func(name string) (error, bool) {
		return apierrors.NewConflict(schema.GroupResource{Resource: "nodeimages"}, name, errors.New("changed")), false
	}
	if after := w.mustPass(job); after != retryInterval {
		t.Errorf("comes back after %v", after)
	}
	w.patchErr = nil
	w.mustPass(job)
	if w.begun() != 1 {
		t.Error("nobody was told")
	}
}

func TestWhoMayNotWrite(t *testing.T) {
	job := newJob("default", "pull", 1)
	w := newWorld(t, append(node("a"), job)...)
	w.c.MayWrite = func() bool { return false }
	w.mustPass(job)
	if n := w.writes.Load(); n != 0 {
		t.Errorf("%d writes", n)
	}
}

func TestOrder(t *testing.T) {
	job := newJob("default", "pull", 1)
	w := newWorld(t, append(append(node("a"), node("b")...), job)...)
	w.c.Order = func(*v1beta1.ImagePullJob) ([]string, map[string]bool) { return []string{"b"}, nil }
	w.mustPass(job)
	if len(w.image("b").Spec.Images) != 1 || w.begun() != 1 {
		t.Error("b is not the first")
	}
}

// TestHeldNodesBeginNothing until they are released.
func TestHeldNodesBeginNothing(t *testing.T) {
	job := newJob("default", "pull", 2)
	w := newWorld(t, append(append(node("a"), node("b")...), job)...)
	held := map[string]bool{"a": true, "b": true}
	w.c.Order = func(*v1beta1.ImagePullJob) ([]string, map[string]bool) { return []string{"b"}, held }
	if w.mustPass(job); w.begun() != 0 {
		t.Errorf("%d nodes have begun", w.begun())
	}
	delete(held, "a")
	if w.mustPass(job); len(w.image("a").Spec.Images) != 1 || w.begun() != 1 {
		t.Errorf("%d nodes have begun", w.begun())
	}
}

// TestSlowJobsOfANamespaceAreOneGroup: a webhook for the jobs of one namespace delays no jobs of another.
func TestSlowJobsOfANamespaceAreOneGroup(t *testing.T) {
	group := newWorld(t).c.loop.Group
	a, same, other := types.NamespacedName{Namespace: "a", Name: "x"}, types.NamespacedName{Namespace: "a", Name: "y"}, types.NamespacedName{Namespace: "b", Name: "x"}
	if group(a) != group(same) || group(a) == group(other) {
		t.Errorf("the groups of %s, %s and %s are %q, %q and %q", a, same, other, group(a), group(same), group(other))
	}
}

// A job of OpenKruise that is deleted has a finalizer, which OpenKruise would remove.
func TestAFinalizerOfSomebodyElse(t *testing.T) {
	job := newJob("default", "pull", 1)
	job.Finalizers = []string{kruise.JobFinalizer}
	w := newWorld(t, append(node("a"), job)...)
	if err := w.client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	w.mustPass(job)
	if read(w, job) != nil {
		t.Error("the job is kept for ever")
	}
	if w.begun() != 0 {
		t.Error("a node was told for a job that is being deleted")
	}
}

func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid-of-secret"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("{}")},
	}
}

func (w *world) copies() []corev1.Secret {
	w.t.Helper()
	list := &corev1.SecretList{}
	if err := w.client.List(w.t.Context(), list, client.InNamespace(kruise.PullNamespace)); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

func TestPullSecrets(t *testing.T) {
	first, second, source := newJob("secret", "first", 1), newJob("secret", "second", 1), secret("secret", "registry")
	first.Spec.PullSecrets, second.Spec.PullSecrets = []string{"registry", "gone"}, []string{"registry"}
	w := newWorld(t, append(node("a"), first, second, source)...)
	w.mustPass(first)
	w.mustPass(second)
	copies := w.copies()
	if len(copies) != 1 || copies[0].Annotations[kruise.PullSecretReferences] != "secret/first,secret/second" ||
		copies[0].Annotations[kruise.PullSecretSource] != "secret/registry" || copies[0].Labels[kruise.PullSecretSourceUID] != "uid-of-secret" ||
		string(copies[0].Data[corev1.DockerConfigJsonKey]) != "{}" || copies[0].Type != corev1.SecretTypeDockerConfigJson {
		t.Fatalf("the copies are %+v", copies)
	}
	want := []v1beta1.ReferenceObject{{Namespace: kruise.PullNamespace, Name: copies[0].Name}}
	if got := w.image("a").Spec.Images["agent"].Tags[0].PullSecrets; !slices.Equal(got, want) {
		t.Errorf("the node is told of %v, want %v", got, want)
	}
	if told := w.told(); len(told) != 1 || !strings.Contains(told[0], "The pull secret gone does not exist") {
		t.Errorf("told %q", told)
	}
	source.Data[corev1.DockerConfigJsonKey] = []byte(`{"auths":{}}`)
	if err := w.client.Update(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(refreshInterval)
	w.mustPass(first)
	if got := string(w.copies()[0].Data[corev1.DockerConfigJsonKey]); got != `{"auths":{}}` {
		t.Errorf("the copy is old: %s", got)
	}
	for _, job := range []*v1beta1.ImagePullJob{first, second} {
		if err := w.client.Delete(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		if err := w.c.Secrets.sweep(t.Context(), w.c.neededBy); err != nil {
			t.Fatal(err)
		}
		if left := len(w.copies()); (left == 0) != (job == second) {
			t.Errorf("%d copies are left after %s", left, job.Name)
		}
	}
}

func TestSecretsThatAreNotGiven(t *testing.T) {
	for name, change := range map[string]func(*v1beta1.ImagePullJob, *corev1.Secret){
		"of another namespace": func(j *v1beta1.ImagePullJob, s *corev1.Secret) { j.Namespace, s.Namespace = "other", "other" },
		"of another type":      func(_ *v1beta1.ImagePullJob, s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
	} {
		t.Run(name, func(t *testing.T) {
			job, source := newJob("secret", "pull", 1), secret("secret", "registry")
			job.Spec.PullSecrets = []string{"registry"}
			change(job, source)
			w := newWorld(t, append(node("a"), job, source)...)
			w.mustPass(job)
			if copies := w.copies(); len(copies) > 0 {
				t.Errorf("copied %+v", copies)
			}
			message := read(w, job).Status.Message
			if held := strings.Contains(message, "add it to pullSecretNamespaces"); held != (job.Namespace == "other") || held == (w.begun() == 1) {
				t.Errorf("%d nodes were told, and the job says %q", w.begun(), message)
			}
		})
	}
}

// TestSecretThatMayNotBeRead: the job says what to do about it, and goes on when that was done, without anybody telling it.
func TestSecretThatMayNotBeRead(t *testing.T) {
	job := newJob("secret", "pull", 1)
	job.Spec.PullSecrets = []string{"registry"}
	w := newWorld(t, append(node("a"), job, secret("secret", "registry"))...)
	granted := false
	w.c.Secrets.live = interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if key.Namespace == "secret" && !granted {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, errors.New(`User "system:serviceaccount:edge:everynode-manager" cannot get resource "secrets" in API group "" in the namespace "secret"`))
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	after := w.mustPass(job)
	command := "kubectl create rolebinding everynode-pull-secrets --namespace secret --clusterrole everynode-manager-read-pull-secrets " +
		"--serviceaccount edge:everynode-manager"
	if got := read(w, job).Status.Message; !strings.Contains(got, "the pull secret registry; ") || !strings.HasSuffix(got, command) || w.begun() != 0 {
		t.Errorf("%d nodes were told, and the job says %q", w.begun(), got)
	}
	w.mustPass(job)
	if told := w.told(); len(told) != 1 || !strings.HasPrefix(told[0], "Warning "+ReasonNoSecret) || !strings.HasSuffix(told[0], command) {
		t.Errorf("told %q", told)
	}
	if after <= 0 || after > refreshInterval {
		t.Fatalf("comes back after %v", after)
	}
	granted = true
	w.clock.Step(after)
	w.mustPass(job)
	if got := read(w, job).Status.Message; w.begun() != 1 || len(w.copies()) != 1 || strings.Contains(got, command) {
		t.Errorf("%d nodes were told, there are %d copies, and the job says %q", w.begun(), len(w.copies()), got)
	}
}

// TestANodeImageThatHasMoved: it is begun in the next pass, and what the others have begun is told at once.
func TestANodeImageThatHasMoved(t *testing.T) {
	job := newJob("jobs", "job", 3)
	w := newWorld(t, append(append(append(node("n1"), node("n2")...), node("n3")...), job)...)
	w.patchErr = func(name string) (error, bool) {
		if name == "n2" {
			return apierrors.NewConflict(schema.GroupResource{Resource: "nodeimages"}, name, errors.New("changed")), false
		}
		return nil, false
	}
	if after := w.mustPass(job); after != retryInterval {
		t.Errorf("comes back after %v", after)
	}
	if got := read(w, job).Status; got.Active != 2 || got.Desired != 3 || w.begun() != 2 {
		t.Errorf("told %+v, begun are %d", got, w.begun())
	}
	w.patchErr = nil
	w.mustPass(job)
	if got := read(w, job).Status; got.Active != 3 || w.begun() != 3 {
		t.Errorf("then told %+v, begun are %d", got, w.begun())
	}
}
