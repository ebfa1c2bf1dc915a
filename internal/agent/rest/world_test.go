// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/agent/store"
	"everynode.dev/everynode/internal/ota"
)

// ownerToken is the token of the owner of the node.
const ownerToken = "the-token-of-the-node"

// world is a node with its API, and a cluster in memory.
type world struct {
	t    *testing.T
	dir  string
	down bool
	pods map[types.NamespacedName]*corev1.Pod
	// seen are the pods as the node knows them; nil is those of the cluster that are on the node.
	seen   []*corev1.Pod
	unseen bool
	// fail is what the API server answers, by the name of the method.
	fail map[string]error
	next string // of pods of Advanced DaemonSets
	// newest is the newest revision of the sets of pods that say themselves which is the next; nil is the one that they say.
	newest *string
	// users are the owners of tokens, for the audience of this node unless audiences names another one, and may is what they may do: "ann
	// delete default".
	users, audiences map[string]string
	may              []string
	now              time.Time

	deleted, told, asked []string

	store  *store.Store
	api    *API
	server *httptest.Server
}

// newWorld returns a node n1 whose API has the old routes, and that is connected.
func newWorld(t *testing.T, pods ...*corev1.Pod) *world {
	t.Helper()
	w := &world{
		t: t, dir: t.TempDir(), pods: map[types.NamespacedName]*corev1.Pod{}, fail: map[string]error{}, users: map[string]string{}, audiences: map[string]string{},
		now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	for _, pod := range pods {
		w.pods[nameOf(pod)] = pod
	}
	w.begin(func(*Options) {})
	return w
}

// begin begins the agent, or begins it again after it has ended.
func (w *world) begin(change func(o *Options)) {
	w.t.Helper()
	if w.server != nil {
		w.server.Close()
		if err := w.store.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
	var err error
	if w.store, err = store.Open(store.Options{Directory: w.dir, Node: "n1", Say: func(m string) { w.t.Error(m) }}); err != nil {
		w.t.Fatal(err)
	}
	o := Options{
		Node: "n1", Pods: w, Cluster: w, Decisions: w.store, OpenYurt: true, Token: ownerToken,
		Now: func() time.Time { return w.now },
		Event: func(pod *corev1.Pod, kind, reason, message string) {
			w.told = append(w.told, kind+" "+reason+" "+pod.Name+": "+message)
		},
		Limits: Limits{Requests: 1e6, Changes: 1e6, Reviews: 1e6, BodyBytes: 1000},
	}
	change(&o)
	w.api = New(o)
	w.server = httptest.NewUnstartedServer(nil)
	w.server.Config = w.api.Server()
	w.server.Start()
	w.t.Cleanup(func() {
		w.server.Close()
		_ = w.store.Close() // it may have been closed already
	})
}

// answer is what came back.
type answer struct {
	code              int
	body, contentType string
	header            http.Header
}

// ask sends a request with the token of the node.
func (w *world) ask(method, path, body string, header ...string) answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+ownerToken)
	for i := 0; i < len(header); i += 2 {
		switch {
		case header[i] == "Host":
			r.Host = header[i+1]
		case header[i+1] == "":
			r.Header.Del(header[i])
		default:
			r.Header.Set(header[i], header[i+1])
		}
	}
	got, err := w.server.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{got.StatusCode, string(data), got.Header.Get("Content-Type"), got.Header}
}

func (w *world) Pods() ([]*corev1.Pod, bool, error) {
	if w.seen != nil || w.unseen {
		return w.seen, !w.unseen, w.fail["Pods"]
	}
	all := []*corev1.Pod{}
	for _, pod := range w.pods {
		if pod.Spec.NodeName == "n1" {
			all = append(all, pod)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return strings.Compare(nameOf(a).String(), nameOf(b).String()) })
	return all, true, w.fail["Pods"]
}

func (w *world) Connected(context.Context) bool { return !w.down }

// reach fails every call while the cluster is away.
func (w *world) reach(method string) error {
	w.asked = append(w.asked, method)
	if w.down {
		return errors.New("dial tcp: no route to host")
	}
	return w.fail[method]
}

func (w *world) Pod(_ context.Context, name types.NamespacedName) (*corev1.Pod, error) {
	if err := w.reach("Pod"); err != nil {
		return nil, err
	}
	if pod := w.pods[name]; pod != nil {
		return pod.DeepCopy(), nil
	}
	return nil, notFound(name.Name)
}

func notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
}

func (w *world) DeletePod(_ context.Context, name types.NamespacedName, only metav1.Preconditions) error {
	if err := w.reach("DeletePod"); err != nil {
		return err
	}
	pod := w.pods[name]
	switch {
	case pod == nil:
		return notFound(name.Name)
	case only.UID == nil:
		w.t.Error("a pod is deleted without its UID")
	case *only.UID != pod.UID, only.ResourceVersion != nil && *only.ResourceVersion != pod.ResourceVersion:
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name.Name, errors.New("the precondition does not hold"))
	}
	delete(w.pods, name)
	w.deleted = append(w.deleted, string(pod.UID))
	return nil
}

func (w *world) SetCondition(_ context.Context, pod *corev1.Pod, c corev1.PodCondition) error {
	if err := w.reach("SetCondition"); err != nil {
		return err
	}
	found := w.pods[nameOf(pod)]
	if found == nil || found.UID != pod.UID {
		return notFound(pod.Name)
	}
	setCondition(found, c)
	return nil
}

func setCondition(pod *corev1.Pod, c corev1.PodCondition) {
	if old := ota.Condition(pod, c.Type); old != nil {
		*old = c
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

func (w *world) NextAdvanced(context.Context, *corev1.Pod, metav1.OwnerReference) (string, error) {
	return w.next, w.reach("NextAdvanced")
}

func (w *world) Newest(_ context.Context, namespace string, owner types.UID, name string) (string, error) {
	if namespace != "default" || owner == "" {
		w.t.Errorf("the newest revision of the set %q in %q is asked for", owner, namespace)
	}
	if w.newest != nil {
		name = *w.newest
	}
	return name, w.reach("Newest")
}

func (w *world) Review(_ context.Context, token string, audiences ...string) (authenticationv1.UserInfo, bool, error) {
	err := w.reach("Review")
	user, ok := w.users[token]
	return authenticationv1.UserInfo{Username: user}, ok && slices.Contains(audiences, cmp.Or(w.audiences[token], v2.AudienceOf("n1"))), err
}

func (w *world) May(_ context.Context, user authenticationv1.UserInfo, verb string, pod types.NamespacedName) (bool, error) {
	return slices.Contains(w.may, strings.TrimSpace(user.Username+" "+verb+" "+pod.Namespace)), w.reach("May")
}

// change makes a pod different.
type change func(pod *corev1.Pod)

// daemonPod is a pod of a DaemonSet of apps/v1 on n1 with revision r1, for which there is the newer revision r2.
func daemonPod(name string, changes ...change) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7", Labels: map[string]string{hashLabel: "r1"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "nginx", UID: "uid-set", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			{Type: openyurt.PodNeedUpgrade, Status: corev1.ConditionTrue, Message: openyurt.FormatRevision("r2")},
		}},
	}
	for _, c := range changes {
		c(pod)
	}
	return pod
}

func on(node string) change { return func(pod *corev1.Pod) { pod.Spec.NodeName = node } }

func deleting(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func needUpgrade(status corev1.ConditionStatus, message string) change {
	return func(pod *corev1.Pod) {
		setCondition(pod, corev1.PodCondition{Type: openyurt.PodNeedUpgrade, Status: status, Message: message})
	}
}

func imageReady(status corev1.ConditionStatus, reason, message string) change {
	return func(pod *corev1.Pod) {
		setCondition(pod, corev1.PodCondition{Type: openyurt.PodImageReady, Status: status, Reason: reason, Message: message})
	}
}

func silent(pod *corev1.Pod) { pod.Status.Conditions = pod.Status.Conditions[:1] }

func ownedBy(apiVersion, kind string) change {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "uid-owner", Controller: new(true)}}
	}
}

func ownedByNobody(pod *corev1.Pod) { pod.OwnerReferences = nil }

// noDecisions is a disk without decisions, on which none can be kept.
type noDecisions struct{}

func (noDecisions) Decisions() ([]v2.Decision, error)                   { return nil, nil }
func (noDecisions) Decision(types.NamespacedName) (*v2.Decision, error) { return nil, nil }
func (noDecisions) Decide(v2.Decision) error                            { return errors.New("the disk is full") }
func (noDecisions) Forget(v2.Decision) error                            { return errors.New("the disk is full") }
