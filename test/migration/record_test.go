// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/test/harness"
)

var (
	record     = flag.Bool("record", false, "have kube-controller-manager's own controller write sets, and record them for package daemonset")
	controller = flag.String("controller", "", "with -record: a program that is the DaemonSet controller of another version alone")
)

// recordedTo is where TestRecord writes to; the README there says what a recording is.
const recordedTo = "../../internal/controller/daemonset/testdata/kubernetes"

// recordedIn is the namespace of the sets that are recorded.
const recordedIn = "recorded"

// script is what happens to a set of testdata/sets, after it was created.
type script struct {
	set string
	// images are those that its first container gets, one after the other, and undo is whether the last change is then undone.
	images []string
	undo   bool
	// stays is whether old pods stay, and waits whether pods never become ready.
	stays, waits bool
}

var scripts = []script{
	{set: "minimal"},
	{set: "defaults", images: []string{harness.Image2, harness.Image3}},
	{set: "undone", images: []string{harness.Image2}, undo: true},
	{set: "by-hand", images: []string{harness.Image2}, stays: true},
	{set: "odd", images: []string{harness.Image2}},
	{set: "pending", images: []string{harness.Image2}, waits: true},
	{set: "newer", images: []string{harness.Image2}},
}

// TestRecord records what kube-controller-manager writes, with the version of Kubernetes that EVERYNODE_KUBERNETES names, or the controller of another version
// beside this API server. It is skipped without -record.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("it writes testdata; run it with -record")
	}
	options := harness.Options{Nodes: 1, Controller: harness.Native, Sim: quick()}
	if *controller != "" {
		options.Controller = ""
	}
	c := harness.Own(t, options)
	r := newRecording(t, c)
	if *controller != "" {
		r.version = runController(t, c)
	}
	for _, s := range scripts {
		r.play(s)
	}
	r.write()
}

// runController runs the controller of another version until the test ends, and returns that version.
func runController(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	info, err := buildinfo.ReadFile(*controller)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(c.Plane.Dir(), "logs", "controller.log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), *controller, "--kubeconfig="+c.Plane.Kubeconfig())
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Wait() // killed
		log.Close()
	})
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			return module.Version
		}
	}
	t.Fatalf("%s is not built with k8s.io/kubernetes", *controller)
	return ""
}

// recording is what one version of Kubernetes has written, as its API server serves it.
type recording struct {
	t      *testing.T
	c      *harness.Cluster
	client rest.Interface

	version, server       string
	sets, revisions, pods harness.Recorded
}

func newRecording(t *testing.T, c *harness.Cluster) *recording {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: recordedIn}}
	if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	version, err := c.Client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	return &recording{t: t, c: c, client: c.Client.Discovery().RESTClient(), version: version.GitVersion, server: version.GitVersion}
}

// play has a set written and changed, and records each version of it, and at the end its revisions and its pod.
func (r *recording) play(s script) {
	r.t.Helper()
	manifest, err := os.ReadFile(filepath.Join("testdata", "sets", s.set+".json"))
	if err != nil {
		r.t.Fatal(err)
	}
	path := "/apis/apps/v1/namespaces/" + recordedIn + "/daemonsets"
	validation := "Strict"
	if s.set == "newer" { // which has fields that an older version does not know
		validation = "Ignore"
	}
	harness.Ask(r.t, r.client.Post().AbsPath(path).Param("fieldValidation", validation).SetHeader("Content-Type", "application/json").Body(manifest))
	r.rest(s, true)
	for _, image := range s.images {
		patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"daemon","image":%q}]}}}}`, image)
		harness.Ask(r.t, r.client.Patch(types.StrategicMergePatchType).AbsPath(path, s.set).Body([]byte(patch)))
		r.rest(s, false)
	}
	if s.undo {
		if out, err := r.c.Kubectl(r.t.Context(), "--namespace", recordedIn, "rollout", "undo", "daemonset/"+s.set); err != nil {
			r.t.Fatalf("%v: %s", err, out)
		}
		r.rest(s, false)
	}
	r.revisions = append(r.revisions, r.list("/apis/apps/v1", "controllerrevisions", s.set)...)
	r.pods = append(r.pods, r.list("/api/v1", "pods", s.set)...)
}

func (r *recording) list(api, resource, set string) harness.Recorded {
	r.t.Helper()
	return harness.RecordList(r.t, r.client.Get().AbsPath(api, "namespaces", recordedIn, resource).Param("labelSelector", "app="+set))
}

// rest waits until the controller has done what the set asks for, and records the set.
func (r *recording) rest(s script, first bool) {
	r.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(r.t.Context(), 100*time.Millisecond, harness.Patience, true, func(ctx context.Context) (bool, error) {
		last = r.rested(ctx, s, first)
		return last == nil, nil
	})
	if err != nil {
		r.t.Fatalf("set %s: %v", s.set, last)
	}
	r.sets = append(r.sets, harness.Record(r.t, r.client.Get().AbsPath("/apis/apps/v1/namespaces/"+recordedIn+"/daemonsets/"+s.set))...)
}

func (r *recording) rested(ctx context.Context, s script, first bool) error {
	set, err := r.c.Client.AppsV1().DaemonSets(recordedIn).Get(ctx, s.set, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pods, err := r.c.Client.CoreV1().Pods(recordedIn).List(ctx, metav1.ListOptions{LabelSelector: "app=" + s.set})
	if err != nil {
		return err
	}
	want := appsv1.DaemonSetStatus{ObservedGeneration: set.Generation, CurrentNumberScheduled: 1, DesiredNumberScheduled: 1, UpdatedNumberScheduled: 1}
	if s.stays && !first {
		want.UpdatedNumberScheduled = 0
	}
	if s.waits {
		want.NumberUnavailable = 1
	} else {
		want.NumberReady, want.NumberAvailable = 1, 1
	}
	if got, wanted := fmt.Sprintf("%+v", set.Status), fmt.Sprintf("%+v", want); got != wanted || len(pods.Items) != 1 {
		return fmt.Errorf("%d pods, status %s, want %s", len(pods.Items), got, wanted)
	}
	return nil
}

// write writes the file of this version, with one object on a line.
func (r *recording) write() {
	r.t.Helper()
	harness.WriteRecording(r.t, filepath.Join(recordedTo, r.version+".json"),
		fmt.Sprintf("{\"version\": %q, \"server\": %q,\n\"sets\": %s,\n\"revisions\": %s,\n\"pods\": %s}\n", r.version, r.server, r.sets, r.revisions, r.pods))
}
