// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/harness"
)

// usual is the address that the page names; a walk takes another one when somebody listens there.
const usual = harness.NodeAPIAddress

const upgrade = "curl -X POST 127.0.0.1:10267/openyurt.io/v1/namespaces/default/pods/NAME/upgrade"

// walk is a user who types what docs/edge.md says, in that order. NAME is the pod of node-0002.
type walk struct {
	*harness.Desk
	t       *testing.T
	page    string // what is left of it
	pod     string
	address string // of the API of node-0002
	token   string
}

// newWalk starts the plane as the page does; more are arguments for what the page only mentions.
func newWalk(t *testing.T, more string) *walk {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "edge.md"))
	if err != nil {
		t.Fatal(err)
	}
	w := &walk{Desk: harness.NewDesk(t), t: t, page: string(page)}
	command := w.typed("bin/localplane up --nodes 3 --dialects native,openyurt")
	if more != "" {
		command = strings.Replace(command, "native,", "", 1) + more
	}
	w.Type(command)
	return w
}

// typed is a command of the page: it has to stand there, behind those that were typed before.
func (w *walk) typed(command string) string {
	w.t.Helper()
	_, rest, found := strings.Cut(w.page, "\n    $ "+command+"\n")
	if !found {
		w.t.Fatalf("docs/edge.md does not say %q, or not in this place", command)
	}
	w.page = "\n" + rest
	command = strings.ReplaceAll(command, "NAME", w.pod)
	if w.address != "" {
		command = strings.ReplaceAll(command, usual, w.address)
	}
	return command
}

// types runs a command of the page and returns what it prints.
func (w *walk) types(command string) string {
	w.t.Helper()
	return w.Type(w.typed(command))
}

// until types a command of the page again and again until it prints what is looked for.
func (w *walk) until(command string, looks ...look) {
	w.t.Helper()
	command = w.typed(command)
	var out []byte
	w.Poll("$ "+command, func() error {
		var err error
		out, err = w.Command(w.t.Context(), command).CombinedOutput()
		for _, look := range looks {
			err = errors.Join(err, look(string(out)))
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	w.t.Logf("$ %s\n%s", command, out)
}

// serve types the command that serves the API of node-0002, and keeps what it prints.
func (w *walk) serve(command string) {
	w.t.Helper()
	w.address = usual
	w.address, w.token = w.TypeNodeAPI(w.typed(command))
}

// answers does what curl does with a command of the page, for not every machine has one, and returns the body.
func (w *walk) answers(command string, code int, says string) string {
	w.t.Helper()
	command = w.typed(command)
	have, body, err := w.curl(command)
	if err != nil || have != code || !strings.Contains(body, says) {
		w.t.Fatalf("$ %s\nis answered %d %s (%v), want %d and %q", command, have, body, err, code, says)
	}
	w.t.Logf("$ %s\n%.300s", command, body)
	return body
}

// answersUntil is answers for what takes a while.
func (w *walk) answersUntil(command string, code int, says string) {
	w.t.Helper()
	command = w.typed(command)
	w.Poll("$ "+command, func() error {
		have, body, err := w.curl(command)
		if err == nil && (have != code || !strings.Contains(body, says)) {
			err = fmt.Errorf("it is answered %d %s, want %d and %q", have, body, code, says)
		}
		return err
	})
	w.t.Logf("$ %s", command)
}

func (w *walk) curl(command string) (int, string, error) { return w.Curl(command, w.token) }

// pods are the pods of the set by node.
func (w *walk) pods() map[string]*corev1.Pod {
	w.t.Helper()
	list, err := w.Client.CoreV1().Pods("default").List(w.t.Context(), metav1.ListOptions{LabelSelector: "app=nginx"})
	if err != nil {
		w.t.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Spec.NodeName] = &list.Items[i]
	}
	return pods
}
