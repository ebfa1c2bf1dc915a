// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"bufio"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"everynode.dev/everynode/test/harness"
)

var yurtManager = flag.String("yurt-manager", "", "the program of OpenYurt that TestRecord records for package daemonset")

// recordedTo is where TestRecord writes to; the README there says what a recording is.
const recordedTo = "../../internal/controller/daemonset/testdata/openyurt"

const recordedNodes = 3

// TestRecord records what OpenYurt's own controller writes beside kube-controller-manager. It is skipped without -yurt-manager.
func TestRecord(t *testing.T) {
	if *yurtManager == "" {
		t.Skip("it writes testdata; run it with -yurt-manager and the path of that program")
	}
	c := harness.Own(t, harness.Options{Nodes: recordedNodes, Controller: harness.Native, Sim: quick(), AuditWrites: true})
	runYurtManager(t, c)
	r := &recording{t: t, s: c.Space(t, recordedNodes)}
	r.ota()
	for _, strategy := range []string{advanced, "Auto"} {
		r.rolls(strategy)
	}
	r.write()
}

// runYurtManager runs OpenYurt's manager with the one controller that is about DaemonSets, until the test ends. It acts as service accounts of its own.
func runYurtManager(t *testing.T, c *harness.Cluster) {
	t.Helper()
	_, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "recorded"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:kube-system"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(c.Plane.Dir(), "logs", "yurt-manager.log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), *yurtManager, "--kubeconfig="+c.Plane.Kubeconfig(), "--controllers=daemonpodupdater",
		"--disable-independent-webhooks=*", "--leader-elect=false", "--metrics-addr=127.0.0.1:0", "--health-probe-addr=127.0.0.1:0", "--v=5")
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Wait() // killed
		log.Close()
	})
}

// recording are moments, in their order.
type recording struct {
	t       *testing.T
	s       *harness.Space
	moments []moment
	// written is how many writes of OpenYurt's the moments so far have.
	written int
}

// moment is what there was at rest, and what OpenYurt had written since the moment before.
type moment struct {
	name                         string
	set, revisions, pods, writes harness.Recorded
}

// yurtWrite is a write of OpenYurt's manager, from the audit log. Body is what a delete asked for.
type yurtWrite struct {
	Verb, Resource, Pod, UserAgent string
	Body                           json.RawMessage `json:",omitempty"`
}

// ota records pods that OpenYurt tells of a newer version: in an update, when one of them was replaced, and after a rollback.
func (r *recording) ota() {
	r.s.Run("ota", harness.WithOnDelete, harness.WithAnnotation(strategyKey, ota))
	r.s.Wait("all pods are up to date", saysUpgrade(0, recordedNodes))
	r.moment("ota", "created")
	r.s.Update("ota", harness.WithImage(harness.Image2))
	r.s.Wait("all pods are old", saysUpgrade(recordedNodes, 0))
	r.moment("ota", "updated")
	pod := r.s.View().Pods("ota")[0]
	if err := r.s.Cluster.Client.CoreV1().Pods(r.s.Name).Delete(r.t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.s.Wait("one pod is up to date", saysUpgrade(recordedNodes-1, 1), allReady)
	r.moment("ota", "replaced")
	r.s.Kubectl("rollout", "undo", "daemonset/ota")
	// OpenYurt goes by a hash that it computes with types of its own, and kube-controller-manager's is another one; so pods of an older number count as old.
	r.s.Wait("OpenYurt takes all pods for old", saysUpgrade(recordedNodes, 0))
	r.moment("ota", "undone")
}

// saysUpgrade is met when that many pods say that there is a newer version, and that there is none.
func saysUpgrade(yes, no int) harness.Condition {
	return func(v harness.View) error {
		got := map[corev1.ConditionStatus]int{}
		for _, pod := range v.Pods("ota") {
			for _, condition := range pod.Status.Conditions {
				if condition.Type == "PodNeedUpgrade" {
					got[condition.Status]++
				}
			}
		}
		if got[corev1.ConditionTrue] != yes || got[corev1.ConditionFalse] != no {
			return fmt.Errorf("pods say %v, want %d True and %d False", got, yes, no)
		}
		return nil
	}
}

func allReady(v harness.View) error {
	for _, pod := range v.AllPods() {
		if !harness.Ready(pod) {
			return fmt.Errorf("pod %s is not ready", pod.Name)
		}
	}
	return nil
}

// rolls records an update that OpenYurt carries out.
func (r *recording) rolls(strategy string) {
	name := strings.ToLower(strategy)
	r.s.Run(name, harness.WithOnDelete, harness.WithAnnotation(strategyKey, strategy), harness.WithAnnotation(limitKey, "1"))
	r.moment(name, "created")
	written := r.s.Update(name, harness.WithImage(harness.Image2))
	r.s.Wait("OpenYurt rolls", harness.RolledOut(name, written.Generation, recordedNodes))
	r.moment(name, "updated")
}

// moment records the objects of a set.
func (r *recording) moment(set, name string) {
	r.t.Helper()
	r.s.Wait("kube-controller-manager has seen the set", func(v harness.View) error {
		if s := v.Set(set); s.Status.ObservedGeneration != s.Generation {
			return fmt.Errorf("generation %d of %d", s.Status.ObservedGeneration, s.Generation)
		}
		return nil
	})
	began := time.Now()
	r.s.Poll("times of the next moment are later ones", func() error {
		if time.Since(began) <= time.Second {
			return errors.New("they may be the same")
		}
		return nil
	})
	client := r.s.Cluster.Client.Discovery().RESTClient()
	list := func(api, resource string) harness.Recorded {
		return harness.RecordList(r.t, client.Get().AbsPath(api, "namespaces", r.s.Name, resource).Param("labelSelector", "app="+set))
	}
	m := moment{
		name: set + " " + name, set: harness.Record(r.t, client.Get().AbsPath("/apis/apps/v1/namespaces", r.s.Name, "daemonsets", set)),
		revisions: list("/apis/apps/v1", "controllerrevisions"), pods: list("/api/v1", "pods"),
	}
	all := r.writes()
	m.writes = all[r.written:]
	r.written = len(all)
	r.moments = append(r.moments, m)
}

// writes are those of OpenYurt's manager to pods, so far.
func (r *recording) writes() harness.Recorded {
	r.t.Helper()
	log, err := os.ReadFile(r.s.Cluster.Plane.AuditLog())
	if err != nil {
		r.t.Fatal(err)
	}
	var all harness.Recorded
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, 10<<20)
	for lines.Scan() {
		var e auditv1.Event
		if json.Unmarshal(lines.Bytes(), &e) != nil || !strings.HasPrefix(e.UserAgent, "yurt-manager") || e.ObjectRef == nil || e.ObjectRef.Resource != "pods" ||
			e.Stage != auditv1.StageResponseComplete {
			continue
		}
		w := yurtWrite{Verb: e.Verb, Resource: strings.TrimSuffix("pods/"+e.ObjectRef.Subresource, "/"), Pod: e.ObjectRef.Name, UserAgent: e.UserAgent}
		if e.Verb == "delete" && e.RequestObject != nil {
			w.Body = e.RequestObject.Raw
		}
		line, err := json.Marshal(w)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, line)
	}
	return all
}

// write writes the file of this version of OpenYurt, with one object on a line.
func (r *recording) write() {
	r.t.Helper()
	openyurt := versionOf(r.t, *yurtManager)
	kubernetes, err := r.s.Cluster.Client.Discovery().ServerVersion()
	if err != nil {
		r.t.Fatal(err)
	}
	var moments []string
	for _, m := range r.moments {
		moments = append(moments, fmt.Sprintf("{\"name\": %q,\n\"sets\": %s,\n\"revisions\": %s,\n\"pods\": %s,\n\"writes\": %s}", m.name, m.set, m.revisions, m.pods, m.writes))
	}
	harness.WriteRecording(r.t, filepath.Join(recordedTo, openyurt+".json"), fmt.Sprintf("{\"openyurt\": %q, \"version\": %q, \"moments\": [\n%s\n]}\n",
		openyurt, kubernetes.GitVersion, strings.Join(moments, ",\n")))
}

// versionOf is the version of OpenYurt that a program is built from: its own manager, or one with some of its controllers.
func versionOf(t *testing.T, program string) string {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range append(info.Deps, &info.Main) {
		if module.Path == "github.com/openyurtio/openyurt" {
			return module.Version
		}
	}
	t.Fatalf("%s is not built with OpenYurt", program)
	return ""
}
