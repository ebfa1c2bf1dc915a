// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/ota"
)

const (
	textType    = "text/plain; charset=utf-8" // what the library sets when nobody does
	upgradePath = "/openyurt.io/v1/namespaces/default/pods/p/upgrade"
	pullPath    = "/openyurt.io/v1/namespaces/default/pods/p/imagepull"
)

// Each row is one of the answers of OpenYurt's yurthub, and its text is what yurthub writes, byte for byte. Four texts of yurthub have
// no cause here: there is no key to compute ("Get pods key failed"), no body that cannot be encoded ("Encode pod list failed",
// "Marshal patch body failed"), and no ConfigMap of a static pod to look for ("Static pod pre-check failed").
func TestOldRoutes(t *testing.T) {
	const False, True = corev1.ConditionFalse, corev1.ConditionTrue
	for _, row := range []struct {
		name   string
		path   string
		pod    *corev1.Pod
		change func(w *world)
		code   int
		body   string
	}{
		{"upgrade", upgradePath, daemonPod("p"), nil, 200, "Start updating pod default/p"},
		{"upgrade with its images", upgradePath, daemonPod("p", imageReady(True, openyurt.PullImageSuccess, "controllerrevision: r2")), nil,
			200, "Start updating pod default/p"},
		{"upgrade of a pod that is not there", upgradePath, nil, nil, 500, `Get pod failed, pods "p" not found`},
		{"upgrade when the answer is an error", upgradePath, daemonPod("p"), func(w *world) { w.fail["Pod"] = errors.New("boom") },
			500, "Get pod failed, boom"},
		{"upgrade of a pod that is being deleted", upgradePath, daemonPod("p", deleting), nil,
			403, "Pre check update pod failed, Failed to check pod default/p status, error: Pod default/p is deleting, can not be updated"},
		{"upgrade of a pod of another node", upgradePath, daemonPod("p", on("n2")), nil,
			403, "Pre check update pod failed, Failed to check pod default/p status, error: Pod: default/p is running on n2, can not be updated"},
		{"upgrade of a pod that has the newest revision", upgradePath, daemonPod("p", needUpgrade(False, "controllerrevision: r1")), nil,
			403, "Pre check update pod failed, Failed to check pod default/p status, error: Pod: default/p update status is False, can not be updated"},
		{"upgrade of a pod of which nothing is said", upgradePath, daemonPod("p", silent), nil,
			403, "Pre check update pod failed, Failed to check pod default/p status, error: Pod: default/p update status is False, can not be updated"},
		{"upgrade while images are pulled", upgradePath, daemonPod("p", imageReady(False, "", "controllerrevision: r2")), nil,
			403, "Pre check update pod failed, Failed to check pod default/p image ready, error: " +
				"Pod: default/p image is not ready, reason: , message: controllerrevision: r2"},
		{"upgrade after the pull has failed", upgradePath, daemonPod("p", imageReady(False, openyurt.PullImageFail, "pull image job image-pre-pull-p-r2 failed")), nil,
			403, "Pre check update pod failed, Failed to check pod default/p image ready, error: " +
				"Pod: default/p image is not ready, reason: PullImageFail, message: pull image job image-pre-pull-p-r2 failed"},
		{"upgrade with the images of another revision", upgradePath, daemonPod("p", imageReady(True, openyurt.PullImageSuccess, "controllerrevision: r0")), nil,
			403, "Pre check update pod failed, Failed to check pod default/p image ready, error: " +
				"Pod: default/p image is not ready, reason: PullImageSuccess, message: controllerrevision: r0"},
		{"upgrade of a pod whose name is none", strings.Replace(upgradePath, "/p/", "/P/", 1), nil, nil, 500, `Get pod failed, pods "P" not found`},
		{"imagepull of a pod whose name is none", strings.Replace(pullPath, "/p/", "/p%20%0A/", 1), nil, nil, 500, "Get pod failed, pods \"p \\n\" not found"},
		{"upgrade of a pod of nobody", upgradePath, daemonPod("p", ownedByNobody), nil, 400, "Pod has no owner references"},
		{"upgrade of a pod of a ReplicaSet", upgradePath, daemonPod("p", ownedBy("apps/v1", "ReplicaSet")), nil,
			400, "Not support ota upgrade pod type ReplicaSet"},
		{"upgrade of a static pod", upgradePath, daemonPod("p", ownedBy("v1", "Node")), nil, 403, "Configmap for static pod does not exist"},
		{"upgrade of a static pod of which nothing is said", upgradePath, daemonPod("p", ownedBy("v1", "Node"), silent), nil,
			403, "Configmap for static pod does not exist"},
		{"upgrade when the delete fails", upgradePath, daemonPod("p"), func(w *world) { w.fail["DeletePod"] = errors.New("boom") },
			500, "Apply update failed"},
		{"upgrade without the cluster", upgradePath, daemonPod("p"), func(w *world) { w.down = true },
			503, "OTA upgrade is not allowed when node is disconnected to cloud"},

		{"imagepull", pullPath, daemonPod("p"), nil, 200, "Image pre-pull requested for pod default/p"},
		{"imagepull of a pod that is not there", pullPath, nil, nil, 500, `Get pod failed, pods "p" not found`},
		{"imagepull of a pod that is being deleted", pullPath, daemonPod("p", deleting), nil,
			403, "Failed to check pod status default/p, error: Pod default/p is deleting, can not be updated"},
		{"imagepull of a pod of another node", pullPath, daemonPod("p", on("n2")), nil,
			403, "Failed to check pod status default/p, error: Pod: default/p is running on n2, can not be updated"},
		{"imagepull of a pod that has the newest revision", pullPath, daemonPod("p", needUpgrade(False, "controllerrevision: r1")), nil,
			403, "Failed to check pod status default/p, error: Pod: default/p update status is False, can not be updated"},
		{"imagepull when the patch fails", pullPath, daemonPod("p"), func(w *world) { w.fail["SetCondition"] = errors.New("boom") },
			500, "Patch pod status for imagepull failed"},
		{"imagepull without the cluster", pullPath, daemonPod("p"), func(w *world) { w.down = true },
			503, "OTA upgrade is not allowed when node is disconnected to cloud"},

		{"upgrade of a pod of an Advanced DaemonSet", upgradePath, daemonPod("p", ownedBy("apps.kruise.io/v1beta1", "DaemonSet"), silent),
			func(w *world) { w.next = "r2" }, 200, "Start updating pod default/p"},
		{"upgrade of one that has the newest revision", upgradePath, daemonPod("p", ownedBy("apps.kruise.io/v1beta1", "DaemonSet"), silent), nil,
			403, "Pre check update pod failed, Failed to check pod default/p status, error: Pod: default/p update status is False, can not be updated"},
		{"imagepull of a pod of an Advanced DaemonSet", pullPath, daemonPod("p", ownedBy("apps.kruise.io/v1beta1", "DaemonSet"), silent),
			func(w *world) { w.next = "r2" }, 200, "Image pre-pull requested for pod default/p"},
	} {
		t.Run(row.name, func(t *testing.T) {
			pods := []*corev1.Pod{}
			if row.pod != nil {
				pods = append(pods, row.pod)
			}
			w := newWorld(t, pods...)
			if row.change != nil {
				row.change(w)
			}
			contentType := textType
			if row.code == http.StatusOK {
				contentType = "application/json"
			}
			// Nobody shows a token on these routes.
			if got := w.ask(http.MethodPost, row.path, "", "Authorization", ""); got.code != row.code || got.body != row.body || got.contentType != contentType {
				t.Errorf("it answers %d %q %q, want %d %q %q", got.code, got.contentType, got.body, row.code, contentType, row.body)
			}
			if done := len(w.deleted) == 1; done != (row.code == http.StatusOK && row.path == upgradePath) {
				t.Errorf("deleted are %q", w.deleted)
			}
		})
	}
}

func TestOldPods(t *testing.T) {
	w := newWorld(t, daemonPod("b"), daemonPod("a"), daemonPod("c", on("n2")))
	got := w.ask(http.MethodGet, "/pods", "", "Authorization", "")
	list := &corev1.PodList{}
	if err := json.Unmarshal([]byte(got.body), list); err != nil || got.code != 200 || got.contentType != "application/json" {
		t.Fatalf("it answers %d %q %v", got.code, got.contentType, err)
	}
	if list.Kind != "PodList" || list.APIVersion != "v1" || len(list.Items) != 2 || list.Items[0].Name != "a" || list.Items[1].Name != "b" {
		t.Errorf("the list is %s", got.body)
	}
	if c := ota.Condition(&list.Items[0], openyurt.PodNeedUpgrade); c == nil || c.Message != "controllerrevision: r2" {
		t.Errorf("the conditions are %+v", list.Items[0].Status.Conditions)
	}

	w.seen = []*corev1.Pod{}
	if got := w.ask(http.MethodGet, "/pods", ""); got.body != `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}`+"\n" {
		t.Errorf("no pods are %q", got.body)
	}
	w.down = true
	if got := w.ask(http.MethodGet, "/pods", ""); got.code != 200 {
		t.Errorf("without the cluster it answers %d", got.code)
	}
	w.unseen = true
	if got := w.ask(http.MethodGet, "/pods", ""); got.code != 500 || got.body != "Get pod list failed" || got.contentType != textType {
		t.Errorf("when nobody has looked it answers %+v", got)
	}
	w.unseen, w.fail["Pods"] = false, errors.New("boom")
	if got := w.ask(http.MethodGet, "/pods", ""); got.code != 500 || got.body != "Get pod list failed" {
		t.Errorf("with a disk that fails it answers %+v", got)
	}
}

func TestOldRoutesHaveASwitch(t *testing.T) {
	w := newWorld(t, daemonPod("p"))
	w.begin(func(o *Options) { o.OpenYurt = false })
	for _, request := range [][2]string{{"GET", "/pods"}, {"POST", upgradePath}, {"POST", pullPath}} {
		if got := w.ask(request[0], request[1], ""); got.code != http.StatusNotFound {
			t.Errorf("%s answers %d", request, got.code)
		}
	}
	if len(w.deleted) > 0 {
		t.Errorf("deleted are %q", w.deleted)
	}
}

func TestWhoeverAsksForImagesTwiceChangesNothing(t *testing.T) {
	const False, True = corev1.ConditionFalse, corev1.ConditionTrue
	for _, row := range []struct {
		name   string
		before change
		writes bool
	}{
		{"nobody has asked", func(*corev1.Pod) {}, true},
		{"they are being pulled", imageReady(False, "", "controllerrevision: r2"), false},
		{"they are there", imageReady(True, openyurt.PullImageSuccess, "controllerrevision: r2"), false},
		{"they have failed", imageReady(False, openyurt.PullImageFail, "pull image job x failed"), true},
		{"those of an older revision are there", imageReady(True, openyurt.PullImageSuccess, "controllerrevision: r1"), true},
		{"those of an older revision are being pulled", imageReady(False, "", "controllerrevision: r1"), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, daemonPod("p", row.before))
			before := *w.pods[nameOf(daemonPod("p"))].DeepCopy()
			if got := w.ask(http.MethodPost, pullPath, ""); got.code != 200 {
				t.Fatalf("it answers %+v", got)
			}
			after := ota.Condition(w.pods[nameOf(&before)], openyurt.PodImageReady)
			if !row.writes {
				if was := ota.Condition(&before, openyurt.PodImageReady); *after != *was {
					t.Errorf("it was %+v, and is %+v", was, after)
				}
				return
			}
			if after.Status != False || after.Reason != "" || after.Message != "controllerrevision: r2" {
				t.Errorf("it is %+v", after)
			}
		})
	}
}

func TestAPodThatIsNotTheOneThatWasLookedAt(t *testing.T) {
	w := newWorld(t, daemonPod("p"))
	w.api.o.Cluster = swapped{w}
	if got := w.ask(http.MethodPost, upgradePath, ""); got.code != 500 || got.body != "Apply update failed" || len(w.deleted) > 0 {
		t.Errorf("it answers %+v and deletes %q", got, w.deleted)
	}
}

// swapped is a cluster in which somebody else makes the pod anew after it was read.
type swapped struct{ *world }

func (s swapped) DeletePod(ctx context.Context, name types.NamespacedName, only metav1.Preconditions) error {
	s.pods[name].UID = "another"
	return s.world.DeletePod(ctx, name, only)
}
