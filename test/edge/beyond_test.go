// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"strings"
)

const (
	imagePull    = "curl -X POST 127.0.0.1:10267/openyurt.io/v1/namespaces/default/pods/NAME/imagepull"
	disconnected = "OTA upgrade is not allowed when node is disconnected to cloud"
)

// imagesFirst is an upgrade whose images are pulled ahead, and one of another node's pod, which is refused.
func (w *walk) imagesFirst() {
	first := w.pods()
	recorder := w.observe()
	w.foreignPod(first[reachable[0]].Name)

	w.types("kubectl set image daemonset/nginx-daemonset nginx=nginx:non-existent")
	w.until("kubectl describe pods NAME", row("PodNeedUpgrade", "True"))
	if body := w.answers(imagePull, 200, ""); body != "Image pre-pull requested for pod default/"+w.pod {
		w.t.Errorf("the pull is answered %q", body)
	}
	w.until("kubectl describe pods NAME", row("PodImageReady", "False"))
	w.answers(upgrade, 403, "Pre check update pod failed, Failed to check pod default/"+w.pod+" image ready, error: Pod: default/"+w.pod+" image is not ready, ")

	wanted := w.message("PodNeedUpgrade")
	w.types("kubectl set image daemonset/nginx-daemonset nginx=nginx:1.19.6")
	w.until(`kubectl get pod NAME -o jsonpath='{.status.conditions[?(@.type=="PodNeedUpgrade")].message}'`, shows("controllerrevision: "), without(wanted))
	wanted = w.message("PodNeedUpgrade")
	w.answers(imagePull, 200, "requested")
	w.until(`kubectl get pod NAME -o jsonpath='{.status.conditions[?(@.type=="PodImageReady")]}'`,
		shows(`"status":"True"`), shows(`"reason":"PullImageSuccess"`), shows(`"message":"`+wanted+`"`))
	w.deleted(recorder)
}

// decisionWhileCut decides on a node that is cut, and has its process die meanwhile.
func (w *walk) decisionWhileCut() {
	first := w.pods()
	recorder := w.observe()
	w.types("bin/localplane node cut node-0002")
	if body := w.answers(upgrade, 503, ""); body != disconnected {
		w.t.Errorf("an upgrade without a connection is answered %q", body)
	}
	w.answers("curl 127.0.0.1:10267/pods", 200, `"name":"`+w.pod+`"`)
	w.answers(`curl -H "Authorization: Bearer $TOKEN" -X POST "127.0.0.1:10267/v2/pods/default/NAME/upgrade?when=connected"`, 202, w.pod)
	w.types("bin/localplane component kill kwok")
	w.types("bin/localplane component start kwok")
	w.answersUntil(`curl -H "Authorization: Bearer $TOKEN" 127.0.0.1:10267/v2/pods/default/NAME/upgrade`, 200, "Pending")
	w.answers("curl 127.0.0.1:10267/pods", 200, `"name":"`+w.pod+`"`)
	if now := w.pods()[away[0]]; now.UID != first[away[0]].UID || now.DeletionTimestamp != nil {
		w.t.Errorf("the pod of a node that is cut was upgraded: %+v", now.ObjectMeta)
	}
	w.types("bin/localplane node heal node-0002")
	w.until("kubectl get pods -o wide | grep nginx-daemonset", running(walkedNodes), without(w.pod))

	code, body, err := w.curl(`curl -H "Authorization: Bearer $TOKEN" ` + w.address + "/v2/pods/default/" + w.pod + "/upgrade")
	if err != nil || code != 404 {
		w.t.Errorf("the decision that was carried out is still there: %d %s (%v)", code, body, err)
	}
	w.deleted(recorder, first[away[0]])
}

// foreignPod asks for the upgrade of a pod of another node.
func (w *walk) foreignPod(name string) {
	w.t.Helper()
	command := strings.ReplaceAll(upgrade, "NAME", "OTHER")
	code, body, err := w.curl(strings.ReplaceAll(w.typed(command), "OTHER", name))
	want := "Pre check update pod failed, Failed to check pod default/" + name + " status, error: Pod: default/" + name + " is running on " +
		reachable[0] + ", can not be updated"
	if err != nil || code != 403 || body != want {
		w.t.Errorf("the upgrade of another node's pod is answered %d %s (%v), want %s", code, body, err, want)
	}
}

// message is that of a condition of the pod.
func (w *walk) message(kind string) string {
	w.t.Helper()
	for _, c := range w.pods()[away[0]].Status.Conditions {
		if string(c.Type) == kind {
			return c.Message
		}
	}
	w.t.Fatalf("pod %s has no condition %s", w.pod, kind)
	return ""
}
