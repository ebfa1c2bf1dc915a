// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// nginx is what the manifests of OpenYurt's page make.
const nginx = "nginx-daemonset"

// Addresses of the API of a node, as seen from that node. NAME is the name of a pod.
const (
	podsURL    = "127.0.0.1:10267/pods"
	upgradeURL = "127.0.0.1:10267/openyurt.io/v1/namespaces/default/pods/NAME/upgrade"
	decideURL  = "127.0.0.1:10267/v2/pods/default/NAME/upgrade"
)

const disconnected = "OTA upgrade is not allowed when node is disconnected to cloud"

// TestEdge is the walk through OpenYurt's page on its upgrade models, with its manifests and in its order, but with images that the plane's
// registry has; to lose a connection is here to have the cable pulled.
func TestEdge(t *testing.T) {
	t.Run("AdvancedRollingUpdate", advancedRollingUpdate)
	t.Run("OTA", overTheAir)
}

// walk is the namespace default, where the page plays.
func walk(t *testing.T, sample string) *stage {
	t.Helper()
	s := &stage{Space: shared.Cluster(t).SpaceIn(t, corev1.NamespaceDefault, count), t: t}
	manifest, err := os.ReadFile(filepath.Join("..", "..", "docs", "samples", "edge", sample))
	if err != nil {
		t.Fatal(err)
	}
	s.atEnd("deleting "+nginx+" with its pods", s.deleteNginx)
	if out, err := s.KubectlWith(strings.ReplaceAll(string(manifest), "nginx:1.19.4", one), "apply", "-f", "-"); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	s.Wait("three pods run", harness.RolledOut(nginx, 1, count))
	if out := s.Kubectl("get", "pods"); len(regexp.MustCompile(`(?m)^`+nginx+`-\S+ +1/1 +Running `).FindAllString(out, -1)) != count {
		t.Errorf("kubectl get pods shows\n%s", out)
	}
	return s
}

// deleteNginx deletes what the page has made and waits until its pods are gone: the next walk has a set of the same name, and would take
// them for its own.
func (s *stage) deleteNginx(ctx context.Context) error {
	if err := s.Cluster.Client.AppsV1().DaemonSets(s.Name).Delete(ctx, nginx, metav1.DeleteOptions{}); err != nil {
		return err
	}
	left := 0
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		pods, err := s.Cluster.Client.CoreV1().Pods(s.Name).List(ctx, metav1.ListOptions{LabelSelector: "app=nginx"})
		if err != nil {
			return false, err
		}
		left = len(pods.Items)
		return left == 0, nil
	})
	if err != nil {
		return fmt.Errorf("%d pods are left: %w", left, err)
	}
	return nil
}

func advancedRollingUpdate(t *testing.T) {
	s := walk(t, "advanced-rolling-update.yaml")
	first := s.nginxPods()
	recorder := s.Observe(nginx)
	stays, away := s.Nodes[0], s.Nodes[1:]

	s.cut(away...)
	out := s.Kubectl("get", "nodes", "-o", "wide")
	for _, node := range s.Nodes {
		want := map[bool]string{true: "NotReady", false: "Ready"}[node != stays]
		if !regexp.MustCompile(`(?m)^` + node + ` +` + want + ` `).MatchString(out) {
			t.Errorf("kubectl get nodes does not show %s as %s:\n%s", node, want, out)
		}
	}
	s.Kubectl("set", "image", "daemonset/"+nginx, "nginx="+two)
	s.Wait("the roll goes on where it can", s.nginxRuns(stays, two))
	for _, node := range away {
		pod := s.nginxPods()[node]
		if pod.UID != first[node].UID || !runs(one)(pod) || pod.DeletionTimestamp != nil {
			t.Errorf("the pod of %s, which is cut, was touched: %+v", node, pod.ObjectMeta)
		}
		if body, err := s.inside(node, program(t), "get", "http://"+pod.Status.PodIP+":8080/"); err != nil || body != "v1" {
			t.Errorf("on %s, which is cut, the pod answers %q (%v)", node, body, err)
		}
	}
	s.heal(away...)
	s.Wait("the nodes follow", harness.RolledOut(nginx, 2, count), harness.EachPod(nginx, "on "+two, runs(two)))
	if out := s.Kubectl("describe", "pods", "-l", "app=nginx"); len(regexp.MustCompile(`(?m)^ +Image: +`+two+`$`).FindAllString(out, -1)) != count {
		t.Errorf("kubectl describe pods shows\n%s", out)
	}
	s.deleted(recorder, first[s.Nodes[0]], first[s.Nodes[1]], first[s.Nodes[2]])
	if err := recorder.JudgeEdge(observe.EdgeRules{Limit: 1, Blame: 10 * time.Minute}).Err(); err != nil {
		t.Errorf("observed from outside: %v", err)
	}
}

func overTheAir(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("SKIPPED: the owner of a node asks its API with curl, and there is none: apt-get install curl")
	}
	s := walk(t, "ota.yaml")
	first := s.nginxPods()
	recorder := s.Observe(nginx)
	node, name := s.Nodes[1], first[s.Nodes[1]].Name
	s.needsUpgrade(name, "False")
	s.Kubectl("set", "image", "daemonset/"+nginx, "nginx="+two)
	s.needsUpgrade(name, "True")
	s.curl(node, curl{url: podsURL, code: 200, says: `"name":"` + name + `"`})
	s.curl(node, curl{url: upgradeURL, pod: name, post: true, code: 200, says: "Start updating pod default/" + name})
	s.Wait("the pod is replaced", s.nginxRuns(node, two))
	for _, other := range []string{s.Nodes[0], s.Nodes[2]} {
		if pod := s.nginxPods()[other]; pod.UID != first[other].UID || !runs(one)(pod) {
			t.Errorf("the pod of %s, which nobody has upgraded, is now %s", other, pod.Name)
		}
	}
	second := s.nginxPods()[node]
	s.needsUpgrade(second.Name, "False")
	s.deleted(recorder, first[node])
	s.decideWhileCut(node, second)
}

// decideWhileCut has the owner of a node decide while it is cut; the decision outlives the agent, and is carried out when the node is back.
func (s *stage) decideWhileCut(node string, pod *corev1.Pod) {
	s.t.Helper()
	recorder := s.Observe(nginx)
	s.Kubectl("set", "image", "daemonset/"+nginx, "nginx="+three)
	s.needsUpgrade(pod.Name, "True")
	s.cut(node)
	s.curl(node, curl{url: upgradeURL, pod: pod.Name, post: true, code: 503, says: disconnected})
	s.curl(node, curl{url: podsURL, code: 200, says: `"name":"` + pod.Name + `"`})
	token, err := s.inside(node, "cat", "/var/lib/everynode-agent/token")
	if err != nil || token == "" {
		s.t.Fatalf("the token of the owner of %s: %v", node, err)
	}
	s.curl(node, curl{url: decideURL + "?when=connected", pod: pod.Name, post: true, token: token, code: 202, says: pod.Name})
	s.killAgent(node)
	s.curl(node, curl{url: decideURL, pod: pod.Name, token: token, code: 200, says: "Pending"})
	if now := s.nginxPods()[node]; now.UID != pod.UID || now.DeletionTimestamp != nil {
		s.t.Errorf("the pod of a node that is cut was upgraded: %+v", now.ObjectMeta)
	}
	s.heal(node)
	s.Wait("the decision is carried out", s.nginxRuns(node, three))
	s.curl(node, curl{url: decideURL, pod: pod.Name, token: token, code: 404})
	s.deleted(recorder, pod)
}

// nginxPods are the pods of the page by node.
func (s *stage) nginxPods() map[string]*corev1.Pod {
	pods := map[string]*corev1.Pod{}
	for _, pod := range s.View().Pods(nginx) {
		pods[pod.Spec.NodeName] = pod
	}
	return pods
}

// nginxRuns is met when a node has a ready pod with that image, and no other.
func (s *stage) nginxRuns(node, image string) harness.Condition {
	return func(v harness.View) error {
		for _, pod := range v.Pods(nginx) {
			if pod.Spec.NodeName == node && (!runs(image)(pod) || !harness.Ready(pod) || pod.DeletionTimestamp != nil) {
				return fmt.Errorf("pod %s of node %s is not a ready one with image %s", pod.Name, node, image)
			}
		}
		if v.PodOn(nginx, node) == nil {
			return fmt.Errorf("node %s has no pod", node)
		}
		return nil
	}
}

// needsUpgrade waits until a pod says whether there is a newer version, as kubectl describes it.
func (s *stage) needsUpgrade(pod, status string) {
	s.t.Helper()
	line := regexp.MustCompile(`(?m)^  PodNeedUpgrade +` + status + ` *$`)
	s.Poll("pod "+pod+" says PodNeedUpgrade "+status, func() error {
		if out := s.Kubectl("describe", "pods", pod); !line.MatchString(out) {
			return fmt.Errorf("kubectl describe shows\n%s", out)
		}
		return nil
	})
}

// deleted ends a recording: these pods were deleted, each once, and no other.
func (s *stage) deleted(recorder *observe.Recorder, want ...*corev1.Pod) {
	s.t.Helper()
	if _, err := recorder.Finish(s.Context()); err != nil {
		s.t.Fatalf("the observation itself failed: %v", err)
	}
	var have, expected []string
	for _, event := range recorder.Log() {
		if pod, is := event.Object.(*corev1.Pod); is && event.Type == watch.Deleted {
			have = append(have, string(pod.UID))
		}
	}
	for _, pod := range want {
		expected = append(expected, string(pod.UID))
	}
	slices.Sort(have)
	slices.Sort(expected)
	if !slices.Equal(have, expected) {
		s.t.Errorf("observed from outside: deleted %v, want %v", have, expected)
	}
}

// inside runs a command in a node, and returns what it prints.
func (s *stage) inside(node string, argv ...string) (string, error) {
	var out, complaints bytes.Buffer
	err := s.Cluster.Plane.NodeExec(s.Context(), node, argv, localplane.Streams{Out: &out, Err: &complaints})
	if err != nil {
		err = fmt.Errorf("%w: %s", err, complaints.String())
	}
	return strings.TrimSpace(out.String()), err
}

// curl is a question to the API of a node, and the answer that is expected.
type curl struct {
	url, pod, token string
	post            bool
	code            int
	says            string
}

// curl runs curl in a node until the answer is the expected one, for agents take a while to know of a connection, or to be back; what is
// answered otherwise changes nothing.
func (s *stage) curl(node string, c curl) {
	s.t.Helper()
	argv := []string{"curl", "-sS", "--max-time", "20", "-w", `\n%{http_code}`}
	if c.post {
		argv = append(argv, "-X", "POST")
	}
	if c.token != "" {
		argv = append(argv, "-H", "Authorization: Bearer "+c.token)
	}
	argv = append(argv, strings.ReplaceAll(c.url, "NAME", c.pod))
	s.Poll(fmt.Sprintf("on %s, %v is answered %d and %s", node, argv, c.code, c.says), func() error {
		out, err := s.inside(node, argv...)
		if err != nil {
			return err
		}
		body, code := "", out
		if at := strings.LastIndex(out, "\n"); at >= 0 {
			body, code = out[:at], out[at+1:]
		}
		if code != fmt.Sprint(c.code) || !strings.Contains(body, c.says) {
			return fmt.Errorf("it is answered %s and %.500s", code, body)
		}
		return nil
	})
}

// killAgent ends the agent of a node, whose kubelet starts it again.
func (s *stage) killAgent(node string) {
	s.t.Helper()
	const script = `for p in /proc/[0-9]*; do
	if [ "$(cat "$p/comm" 2>/dev/null)" = everynode-agent ]; then kill -9 "${p#/proc/}" && echo "${p#/proc/}"; fi
done`
	out, err := s.inside(node, "sh", "-c", script)
	if err == nil && len(strings.Fields(out)) != 1 {
		err = errors.New("there is not exactly one")
	}
	if err != nil {
		s.t.Fatalf("killing the agent of %s: %v\n%s", node, err, out)
	}
}
