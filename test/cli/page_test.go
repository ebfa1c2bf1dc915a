// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/test/harness"
)

// pageNodes is how many nodes a plane has on which a page is typed.
const pageNodes = 10

// typist is a user who types the commands of a page in their order, and leaves none out that can be typed.
type typist struct {
	*harness.Desk
	t     *testing.T
	page  *harness.Page
	nodes int      // of the plane
	at    int      // how many of the page's commands are done with
	read  []string // the pages before it, and this one, where there are several
}

// opens starts a plane that serves the dialects, and opens the page beside it.
func opens(t *testing.T, page, dialects string) *typist {
	t.Helper()
	u := sits(t, harness.ReadPage(t, page), pageNodes)
	u.Type(fmt.Sprintf("bin/localplane up --nodes %d --dialects %s", u.nodes, dialects))
	u.Type("export KUBECONFIG=$PWD/.localplane/default/kubeconfig PATH=$PWD/bin:$PATH")
	return u
}

// sits opens a page that says itself how its plane is started, which then has that many nodes.
func sits(t *testing.T, page *harness.Page, nodes int) *typist {
	t.Helper()
	return &typist{Desk: harness.NewDesk(t), t: t, page: page, nodes: nodes}
}

// next is the next command of the page, which has to begin like that.
func (u *typist) next(begins string) harness.PageCommand {
	u.t.Helper()
	if u.at == len(u.page.Commands) {
		u.t.Fatalf("%s has no further command, and this test expects %q", u.page.Name, begins)
	}
	c := u.page.Commands[u.at]
	if u.at++; !strings.HasPrefix(c.Text, begins) {
		u.t.Fatalf("line %d of %s is %q, and this test expects %q there", c.Line, u.page.Name, c.Text, begins)
	}
	return c
}

// typable is the next command; it must not be marked.
func (u *typist) typable(begins string) harness.PageCommand {
	u.t.Helper()
	c := u.next(begins)
	if c.Untyped != "" {
		u.t.Fatalf("line %d of %s is marked (%s), and this test types it", c.Line, u.page.Name, c.Untyped)
	}
	return c
}

// types types the next command of the page, which has to say all of that, and to print what the page shows.
func (u *typist) types(begins string, texts ...string) string {
	u.t.Helper()
	c := u.typable(begins)
	out := u.Type(c.Text)
	if err := errors.Join(shows(out, texts...), prints(out, c.Shows)); err != nil {
		u.t.Fatalf("line %d of %s:\n$ %s\n%s%v", c.Line, u.page.Name, c.Text, out, err)
	}
	return out
}

// typesUntil types the next command until what it prints matches.
func (u *typist) typesUntil(begins, pattern string, count int) {
	u.t.Helper()
	u.TypeUntil(u.typable(begins).Text, lines(pattern, count))
}

// watches types the next command, and ends it with Ctrl-C when it has said that.
func (u *typist) watches(begins, text string) {
	u.t.Helper()
	u.TypeLive(u.typable(begins).Text, func(out string) error { return shows(out, text) })
}

// leaves passes over the next command, which has to be marked.
func (u *typist) leaves(begins string) {
	u.t.Helper()
	if c := u.next(begins); c.Untyped == "" {
		u.t.Fatalf("line %d of %s is not marked, and this test does not type it: %s", c.Line, u.page.Name, c.Text)
	}
}

// mentioned types a command that stands within the text of the page, about that set where it says NAME.
func (u *typist) mentioned(command, name, text string) {
	u.t.Helper()
	if !strings.Contains(u.page.Text, "`"+command+"`") {
		u.t.Fatalf("%s does not mention %q", u.page.Name, command)
	}
	if out := u.Type(strings.ReplaceAll(command, "NAME", name)); !strings.Contains(out, text) {
		u.t.Fatalf("$ %s\n%sit should say %q", command, out, text)
	}
}

// closes types what is within the text of a runbook, and fails if a command of the page was left out.
func (u *typist) closes() {
	u.t.Helper()
	u.remedies()
	u.leavesAll()
	for _, c := range u.page.Commands[u.at:] {
		u.t.Errorf("line %d of %s is not typed: %s", c.Line, u.page.Name, c.Text)
	}
	for _, c := range u.page.Commands {
		if c.Untyped != "" {
			u.t.Logf("line %d of %s is not typed here: %s (%s)", c.Line, u.page.Name, c.Text, c.Untyped)
		}
	}
}

func shows(out string, texts ...string) error {
	for _, text := range texts {
		if !strings.Contains(out, text) {
			return missing("it should say %q", text)
		}
	}
	return nil
}

// lines is met when that many lines match.
func lines(pattern string, count int) func(out string) error {
	line := regexp.MustCompile("(?m)" + pattern)
	return func(out string) error {
		if have := len(line.FindAllString(out, -1)); have != count {
			return missing("%d lines are like %s, want %d", have, pattern, count)
		}
		return nil
	}
}

// prints fails unless the lines that a page shows are printed, in their order.
func prints(out string, page []string) error {
	left := strings.Split(anywhere(out), "\n")
	for _, line := range page {
		at := slices.Index(left, anywhere(line))
		if at < 0 {
			return missing("the page shows this line, which is not printed, or not there: %q", line)
		}
		left = left[at+1:]
	}
	return nil
}

// anywhere writes the same for what is not the same on every plane: hashes, names of pods and times.
func anywhere(text string) string {
	for _, one := range [][2]string{
		{`revision [a-z0-9]+ \(`, "revision HASH ("},
		{`(pod +)[a-z]+-[a-z0-9]+: `, "${1}NAME: "},
		{`ready for [0-9a-z.]+`, "ready for TIME"},
	} {
		text = regexp.MustCompile(one[0]).ReplaceAllString(text, one[1])
	}
	return text
}

// placed is a pod on its node.
type placed struct {
	name, image string
	uid         types.UID
}

// pods are the pods of an app, as the API server has them now.
func (u *typist) pods(app string) ([]corev1.Pod, error) {
	list, err := u.Client.CoreV1().Pods("default").List(u.t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// settled waits until each node has one pod of the app that is ready, and met has nothing against them, and returns them by node.
func (u *typist) settled(what, app string, met func(pods map[string]placed) error) map[string]placed {
	u.t.Helper()
	var all map[string]placed
	u.Poll(what, func() error {
		pods, err := u.pods(app)
		if err != nil {
			return err
		}
		all = map[string]placed{}
		for i := range pods {
			pod := &pods[i]
			if pod.DeletionTimestamp != nil || !harness.Ready(pod) {
				return missing("pod %s is not ready, or goes", pod.Name)
			}
			all[pod.Spec.NodeName] = placed{pod.Name, pod.Spec.Containers[0].Image, pod.UID}
		}
		if len(pods) != u.nodes || len(all) != u.nodes {
			return missing("there are %d pods on %d nodes", len(pods), len(all))
		}
		return met(all)
	})
	return all
}

// runs waits until each node has one pod of the app that is ready, that many of them with the image.
func (u *typist) runs(app, image string, count int) map[string]placed {
	u.t.Helper()
	return u.settled(fmt.Sprintf("%d nodes run %s", count, image), app, func(pods map[string]placed) error {
		if have := len(with(pods, image)); have != count {
			return missing("%d do", have)
		}
		return nil
	})
}

// with are the nodes whose pod has the image, by name.
func with(pods map[string]placed, image string) []string {
	var nodes []string
	for _, node := range slices.Sorted(maps.Keys(pods)) {
		if pods[node].image == image {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// stays fails if a node has another pod than before; some may.
func (u *typist) stays(before, after map[string]placed, may ...string) {
	u.t.Helper()
	for node, pod := range before {
		if after[node].uid != pod.uid && !slices.Contains(may, node) {
			u.t.Errorf("node %s had pod %s, and has %s", node, pod.name, after[node].name)
		}
	}
}

// cuts takes its connection from a node, and waits until that is known.
func (u *typist) cuts(name string) {
	u.t.Helper()
	u.Type("bin/localplane node cut " + name)
	u.goesDark(name)
}

// goesDark waits until a node that was cut is not ready.
func (u *typist) goesDark(name string) {
	u.t.Helper()
	u.Poll(name+" is not ready", func() error {
		node, err := u.Client.CoreV1().Nodes().Get(u.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return nil
			}
		}
		return missing("it is ready")
	})
}

// observed waits until the controller has seen the newest generation of a DaemonSet of apps/v1.
func (u *typist) observed(name string) {
	u.t.Helper()
	u.Poll("the newest generation of "+name+" is observed", func() error {
		set, err := u.Client.AppsV1().DaemonSets("default").Get(u.t.Context(), name, metav1.GetOptions{})
		if err == nil && set.Status.ObservedGeneration != set.Generation {
			err = missing("generation %d is, and not %d", set.Status.ObservedGeneration, set.Generation)
		}
		return err
	})
}
