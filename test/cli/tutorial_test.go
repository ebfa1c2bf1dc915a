// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/harness"
)

// pageTutorial is the page that TestSmokeCanary types.
const pageTutorial = "docs/getting-started.md"

// The images of the tutorial.
const (
	one = "registry.example/sample:1"
	two = "registry.example/sample:2"
)

// step is a command of the tutorial, in short, and what must be true after it was typed.
type step struct {
	begins string
	check  func(r *reader, out string) error
}

// steps are all commands of the tutorial, in their order.
func steps() []step {
	return []step{
		{"export ", nil},
		{"kubectl get nodes", says("node-0010")},
		{"kubectl create -f docs/samples/daemonset.yaml", nil},
		{"kubectl rollout status daemonset/sample", func(r *reader, _ string) error { return r.images(10, 0) }},
		{"kubectl everynode status daemonset/sample", says("finished")},
		{"kubectl everynode plan daemonset/sample --image ", func(r *reader, out string) error {
			return errors.Join(says("recreate")(r, out), r.images(10, 0))
		}},
		{"kubectl everynode migrate daemonset/sample", func(r *reader, _ string) error { return r.untouched() }},
		{"kubectl get ads sample", says("sample")},
		{"kubectl label node ", nil},
		{"kubectl everynode canary sample canary=true", says("5 nodes of the cluster match")},
		{"kubectl everynode set-image sample ", says("it is a canary")},
		{"kubectl everynode status sample --exit-status", func(r *reader, _ string) error { return r.images(5, 5) }},
		{"kubectl everynode pause sample", says("paused")},
		{"kubectl everynode canary sample --off", says("it is paused")},
		{"kubectl everynode explain-node node-0009 sample", func(r *reader, out string) error {
			return errors.Join(says("paused")(r, out), r.images(5, 5))
		}},
		{"kubectl everynode undo sample", says("it is paused")},
		{"kubectl everynode resume sample", says("resumed")},
		{"kubectl everynode status sample --exit-status", func(r *reader, _ string) error { return r.images(10, 0) }},
		{"kubectl everynode set-image sample ", says("image updated")},
		{"kubectl everynode status sample", nil},
		{"kubectl everynode undo sample", says("rolled back")},
		{"kubectl everynode status sample --exit-status", func(r *reader, _ string) error { return r.images(10, 0) }},
		{"kubectl everynode migrate ads/sample", func(r *reader, _ string) error { return r.untouched() }},
		{"bin/localplane down", nil},
	}
}

func says(text string) func(*reader, string) error {
	return func(_ *reader, out string) error {
		if !strings.Contains(out, text) {
			return fmt.Errorf("it should say %q", text)
		}
		return nil
	}
}

// TestSmokeCanary is a new user who types every command of the tutorial: from nothing to a canary that is stopped, and back. The status is typed again until it
// shows what the page shows.
func TestSmokeCanary(t *testing.T) {
	page, wanted := harness.ReadPage(t, pageTutorial), steps()
	commands := slices.DeleteFunc(page.Commands, func(c harness.PageCommand) bool { return c.Untyped != "" })
	if len(commands) != len(wanted) {
		t.Fatalf("%s has %d commands, and this test knows %d", pageTutorial, len(commands), len(wanted))
	}
	for i, command := range commands {
		if !strings.HasPrefix(command.Text, wanted[i].begins) {
			t.Fatalf("command %d of %s is %q, and this test expects %q", i+1, pageTutorial, command.Text, wanted[i].begins)
		}
	}
	r := &reader{Desk: harness.NewDesk(t), t: t}
	r.Type("bin/localplane up --nodes 10") // what make does when all is built
	for i, command := range commands {
		r.before = r.uids()
		out := r.Type(command.Text)
		if err := prints(out, command.Shows); err != nil {
			if !strings.HasPrefix(command.Text, "kubectl everynode status ") {
				t.Fatalf("line %d of %s:\n$ %s\n%s%v", command.Line, pageTutorial, command.Text, out, err)
			}
			r.TypeUntil(command.Text, func(out string) error { return prints(out, command.Shows) })
		}
		if check := wanted[i].check; check != nil {
			if err := check(r, out); err != nil {
				t.Fatalf("$ %s\n%s%v", command.Text, out, err)
			}
		}
	}
}

// reader is that user.
type reader struct {
	*harness.Desk
	t      *testing.T
	before map[string]string // pods before the command, by name
}

// pods are the pods of the sample.
func (r *reader) pods() []corev1.Pod {
	if r.Client == nil {
		return nil
	}
	list, err := r.Client.CoreV1().Pods("default").List(r.t.Context(), metav1.ListOptions{LabelSelector: "app=sample"})
	if err != nil {
		r.t.Fatal(err)
	}
	return list.Items
}

func (r *reader) uids() map[string]string {
	uids := map[string]string{}
	for _, pod := range r.pods() {
		uids[pod.Name] = string(pod.UID)
	}
	return uids
}

// images counts the pods of each version; all have to be ready.
func (r *reader) images(ofOne, ofTwo int) error {
	count := map[string]int{}
	for _, pod := range r.pods() {
		if harness.Ready(&pod) && pod.DeletionTimestamp == nil {
			count[pod.Spec.Containers[0].Image]++
		}
	}
	if count[one] != ofOne || count[two] != ofTwo || len(count) > 2 {
		return fmt.Errorf("ready pods by image are %v, want %d of version 1 and %d of version 2", count, ofOne, ofTwo)
	}
	return nil
}

// untouched fails unless the pods are those from before the command, and no container has been restarted.
func (r *reader) untouched() error {
	after := r.uids()
	if len(after) != len(r.before) || len(after) == 0 {
		return fmt.Errorf("there were the pods %v, and are %v", r.before, after)
	}
	for name, uid := range after {
		if r.before[name] != uid {
			return fmt.Errorf("pod %s is another one", name)
		}
	}
	for _, pod := range r.pods() {
		for _, container := range pod.Status.ContainerStatuses {
			if container.RestartCount > 0 {
				return fmt.Errorf("pod %s was restarted", pod.Name)
			}
		}
	}
	return nil
}
