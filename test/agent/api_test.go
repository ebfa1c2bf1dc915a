// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/agent/cri/fake"
)

// apiNode is a node whose agent serves the API of the node.
type apiNode struct {
	*node
	dir, address string
	// line is how the agent reaches the API server.
	line *line
}

// newAPINode makes a node of its own for the test. Its agent is not begun.
func newAPINode(t *testing.T) *apiNode {
	t.Helper()
	n := &apiNode{node: newNode(t, nil), dir: filepath.Join(t.TempDir(), "state"), address: freeAddress(t)}
	n.line = newLine(t, strings.TrimPrefix(plane.RESTConfig().Host, "https://"))
	n.kubeconfig = kubeconfigAt(t, tokenFor(t, n.name), "https://"+n.line.address)
	n.args = []string{"--listen", n.address, "--state-dir", n.dir, "--openyurt-api"}
	return n
}

// freeAddress is an address that nobody listens on just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// line is a way to the API server that can be cut.
type line struct {
	address, to string
	mu          sync.Mutex
	cut         bool
	ends        map[net.Conn]bool
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{address: listener.Addr().String(), to: to, ends: map[net.Conn]bool{}}
	t.Cleanup(func() {
		listener.Close()
		l.set(true)
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go l.carry(near)
		}
	}()
	return l
}

func (l *line) carry(near net.Conn) {
	far, err := net.Dial("tcp", l.to)
	if err != nil || !l.add(near, far) {
		near.Close()
		if err == nil {
			far.Close()
		}
		return
	}
	go func() {
		_, _ = io.Copy(far, near)
		far.Close()
	}()
	_, _ = io.Copy(near, far)
	near.Close()
}

func (l *line) add(ends ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range ends {
		l.ends[e] = true
	}
	return !l.cut
}

// set cuts the line, or heals it.
func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		for e := range l.ends {
			e.Close()
		}
		clear(l.ends)
	}
}

// ask sends a request to the API of the node. The token "" is that of the node, "-" is none.
func (n *apiNode) ask(method, path, body, token string) (int, string) {
	n.t.Helper()
	if token == "" {
		data, err := os.ReadFile(filepath.Join(n.dir, "token"))
		if err != nil {
			return 0, err.Error() // the agent has not begun yet
		}
		token = strings.TrimSpace(string(data))
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+n.address+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	if token != "-" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(data)
}

// untilAnswer asks until the answer is as it should be.
func (n *apiNode) untilAnswer(method, path string, code int, contains string) string {
	n.t.Helper()
	var got int
	var body string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got, body = n.ask(method, path, "", ""); got == code && strings.Contains(body, contains) {
			return body
		}
	}
	n.t.Fatalf("%s %s answers %d %s, want %d with %q", method, path, got, body, code, contains)
	return ""
}

// set makes a DaemonSet of apps/v1, which nobody serves here, with the revision r2.
func newSet(t *testing.T, images ...string) *appsv1.DaemonSet {
	t.Helper()
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}}
	for i, image := range images {
		template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i), Image: image})
	}
	set, err := plane.client.AppsV1().DaemonSets("default").Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "set-"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template,
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": set.Spec.Template}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = plane.client.AppsV1().ControllerRevisions("default").Create(t.Context(), &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: set.Name + "-r2", Labels: map[string]string{"app": "a", appsv1.ControllerRevisionHashLabelKey: "r2"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
		},
		Revision: 2, Data: runtime.RawExtension{Raw: data},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// newPod makes a pod of a set on a node, with the revision r1 and the news that there is r2.
func newPod(t *testing.T, set *appsv1.DaemonSet, node string) *corev1.Pod {
	t.Helper()
	pod, err := plane.client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "p-", Labels: map[string]string{"app": "a", appsv1.ControllerRevisionHashLabelKey: "r1"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
		},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{Name: "c0", Image: "r.io/app:v1"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return announce(t, pod, "r2")
}

// announce tells a pod that there is a newer revision.
func announce(t *testing.T, pod *corev1.Pod, revision string) *corev1.Pod {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True","message":%q}]}}`, openyurt.PodNeedUpgrade, openyurt.FormatRevision(revision))
	pod, err := plane.client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func podOf(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	now, err := plane.client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func TestOwnerUpgradesAPod(t *testing.T) {
	n := newAPINode(t)
	runtime := fake.New()
	n.serve(runtime)
	set := newSet(t, "r.io/app:v2", "r.io/side:v2")
	pod := newPod(t, set, n.name)
	n.begin()
	path := "/openyurt.io/v1/namespaces/default/pods/" + pod.Name

	n.untilAnswer(http.MethodGet, "/pods", 200, `"name":"`+pod.Name+`"`)
	if code, body := n.ask(http.MethodPost, path+"/imagepull", "", "-"); code != 200 || body != "Image pre-pull requested for pod default/"+pod.Name {
		t.Fatalf("imagepull answers %d %s", code, body)
	}
	n.untilAnswer(http.MethodGet, "/v2/pods/default/"+pod.Name, 200, `"images":{"state":"Ready","revision":"r2"}`)
	now := podOf(t, pod)
	if c := conditionOf(now, openyurt.PodImageReady); c.Status != corev1.ConditionTrue || c.Reason != openyurt.PullImageSuccess || c.Message != "controllerrevision: r2" {
		t.Errorf("the condition is %+v", c)
	}
	if c := conditionOf(now, openyurt.PodNeedUpgrade); c.Status != corev1.ConditionTrue {
		t.Errorf("the other condition is %+v", c)
	}
	if code, body := n.ask(http.MethodPost, path+"/upgrade", "", "-"); code != 200 || body != "Start updating pod default/"+pod.Name {
		t.Fatalf("upgrade answers %d %s", code, body)
	}
	if now := podOf(t, pod); now != nil {
		t.Errorf("the pod is still there: %+v", now.ObjectMeta)
	}
}

func TestImagesOfAPodThatCannotBePulled(t *testing.T) {
	n := newAPINode(t)
	broken := fake.New()
	broken.Answer = func(context.Context, *runtimeapi.PullImageRequest) error { return errors.New("not found") }
	n.serve(broken)
	pod := newPod(t, newSet(t, "r.io/app:broken"), n.name)
	n.begin()
	path := "/openyurt.io/v1/namespaces/default/pods/" + pod.Name
	n.untilAnswer(http.MethodPost, path+"/imagepull", 200, "requested")
	n.untilAnswer(http.MethodGet, "/v2/pods/default/"+pod.Name, 200, `"images":{"state":"Failed"`)
	want := "Pre check update pod failed, Failed to check pod default/" + pod.Name + " image ready, error: Pod: default/" + pod.Name +
		" image is not ready, reason: PullImageFail, message: pull image job image-pre-pull-" + pod.Name + "-r2 failed"
	if code, body := n.ask(http.MethodPost, path+"/upgrade", "", "-"); code != 403 || body != want {
		t.Errorf("upgrade answers %d %s, want %s", code, body, want)
	}
}

// The owner decides while there is no connection; the agent is killed and begins without one; the decision is carried out once.
func TestADecisionIsKeptWithoutAConnection(t *testing.T) {
	n := newAPINode(t)
	n.serve(fake.New())
	set := newSet(t, "r.io/app:v2")
	pod, other := newPod(t, set, n.name), newPod(t, set, n.name)
	n.begin()
	path := "/v2/pods/default/" + pod.Name
	n.untilAnswer(http.MethodGet, "/pods", 200, other.Name)
	n.terminate() // so that the pods are on the disk
	n.line.set(true)
	n.begin()
	n.untilAnswer(http.MethodGet, "/pods", 200, pod.Name)
	if code, body := n.ask(http.MethodPost, "/openyurt.io/v1/namespaces/default/pods/"+pod.Name+"/upgrade", "", "-"); code != 503 ||
		body != "OTA upgrade is not allowed when node is disconnected to cloud" {
		t.Errorf("upgrade without a connection answers %d %s", code, body)
	}
	if code, body := n.ask(http.MethodPost, path+"/upgrade", "", ""); code != 503 || !strings.Contains(body, string(v2.ReasonDisconnected)) {
		t.Errorf("upgrade without a connection answers %d %s", code, body)
	}
	if code, body := n.ask(http.MethodPost, path+"/upgrade?when=connected", `{"uid":"`+string(pod.UID)+`"}`, ""); code != 202 {
		t.Fatalf("a decision is answered %d %s", code, body)
	}
	n.kill()
	n.begin()
	n.untilAnswer(http.MethodGet, path+"/upgrade", 200, `"revision":"r2","state":"Pending"`)
	if podOf(t, pod) == nil {
		t.Fatal("the pod is gone, and nobody was connected")
	}
	n.line.set(false)
	n.untilAnswer(http.MethodGet, path+"/upgrade", 404, "there is no decision")
	if podOf(t, pod) != nil {
		t.Error("the decision is gone, and the pod is still there")
	}
	if podOf(t, other) == nil {
		t.Error("another pod is gone")
	}
}

func TestPodsOfAnotherNodeAreRefused(t *testing.T) {
	n, foreign := newAPINode(t), newNode(t, nil)
	tokenFor(t, foreign.name) // makes the node
	n.serve(fake.New())
	set := newSet(t, "r.io/app:v2")
	own, pod := newPod(t, set, n.name), newPod(t, set, foreign.name)
	n.begin()
	n.untilAnswer(http.MethodGet, "/pods", 200, own.Name)
	want := fmt.Sprintf("Pod: default/%s is running on %s, can not be updated", pod.Name, foreign.name)
	for _, deed := range []string{"upgrade", "imagepull"} {
		if code, body := n.ask(http.MethodPost, "/openyurt.io/v1/namespaces/default/pods/"+pod.Name+"/"+deed, "", "-"); code != 403 || !strings.Contains(body, want) {
			t.Errorf("%s answers %d %s", deed, code, body)
		}
		if code, body := n.ask(http.MethodPost, "/v2/pods/default/"+pod.Name+"/"+deed, "", ""); code != 403 || !strings.Contains(body, string(v2.ReasonForeignNode)) {
			t.Errorf("%s of /v2 answers %d %s", deed, code, body)
		}
	}
	if code, _ := n.ask(http.MethodGet, "/v2/pods/default/"+pod.Name, "", ""); code != 404 {
		t.Errorf("it can be read: %d", code)
	}
	if podOf(t, pod) == nil {
		t.Error("the pod is gone")
	}
}

// What an agent's token may do with pods, whoever has it.
func TestAgentChangesPodsOfItsOwnNodeAlone(t *testing.T) {
	own, foreign := newNode(t, nil), newNode(t, nil)
	tokenFor(t, foreign.name)
	set := newSet(t, "r.io/app:v2")
	client, err := kubernetes.NewForConfig(withToken(tokenFor(t, own.name)))
	if err != nil {
		t.Fatal(err)
	}
	pods := client.CoreV1().Pods("default")
	say := func(pod *corev1.Pod, patch string) error {
		_, err := pods.Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	}
	mine, theirs := newPod(t, set, own.name), newPod(t, set, foreign.name)
	const ready = `{"status":{"conditions":[{"type":"PodImageReady","status":"True"}]}}`
	if err := say(mine, ready); err != nil {
		t.Errorf("its own condition: %v", err)
	}
	refused(t, "the condition of a foreign pod", say(theirs, ready), "not on that node")
	for what, patch := range map[string]string{
		"another condition":  `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
		"the other news":     `{"status":{"conditions":[{"type":"PodNeedUpgrade","status":"False"}]}}`,
		"the phase":          `{"status":{"phase":"Failed"}}`,
		"an address":         `{"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]}}`,
		"a label":            `{"metadata":{"labels":{"x":"y"}}}`,
		"an annotation":      `{"metadata":{"annotations":{"x":"y"}}}`,
		"container statuses": `{"status":{"containerStatuses":[{"name":"c0","ready":true,"image":"i","imageID":"i"}]}}`,
	} {
		refused(t, what, say(mine, patch), "may write the condition PodImageReady")
	}
	refused(t, "a foreign pod", pods.Delete(t.Context(), theirs.Name, metav1.DeleteOptions{}), "not on that node")
	bare, err := plane.client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bare-"},
		Spec:       corev1.PodSpec{NodeName: own.name, Containers: []corev1.Container{{Name: "c", Image: "r.io/app:v1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	refused(t, "a pod of nobody", pods.Delete(t.Context(), bare.Name, metav1.DeleteOptions{}), "may delete pods of DaemonSets alone")
	if err := pods.Delete(t.Context(), mine.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("a pod of its own: %v", err)
	}
}
