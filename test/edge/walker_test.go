// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"everynode.dev/everynode/test/harness"
)

// usual is the address that the page names; a walk takes another one when somebody listens there.
const usual = "127.0.0.1:10267"

const upgrade = "curl -X POST 127.0.0.1:10267/openyurt.io/v1/namespaces/default/pods/NAME/upgrade"

// walk is a user who types what docs/edge.md says, in that order, in a directory where bin and docs are. NAME is the pod of node-0002.
type walk struct {
	t       *testing.T
	dir     string
	page    string // what is left of it
	client  kubernetes.Interface
	pod     string
	address string // of the API of node-0002
	token   string
}

// newWalk starts the plane as the page does; more are arguments for what the page only mentions.
func newWalk(t *testing.T, more string) *walk {
	t.Helper()
	dir, err := os.MkdirTemp("", "everynode-walk-") //nolint:usetesting // it is removed only after a plane that may be stuck has ended
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "edge.md"))
	if err != nil {
		t.Fatal(err)
	}
	w := &walk{t: t, dir: dir, page: string(page)}
	docs, err := filepath.Abs(filepath.Join("..", "..", "docs"))
	if err = errors.Join(err, os.Symlink(docs, filepath.Join(dir, "docs")), os.Symlink(harness.BinDir(), filepath.Join(dir, "bin"))); err != nil {
		t.Fatal(err)
	}
	// The machine need not have a kubectl. Where it has one that is what localplane runs, and it must not find this one.
	kubectl := "#!/bin/sh\nPATH=${PATH#*:}\nexec bin/localplane kubectl \"$@\"\n"
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "path"), 0o755), os.WriteFile(filepath.Join(dir, "path", "kubectl"), []byte(kubectl), 0o755)); err != nil {
		t.Fatal(err)
	}
	command := w.typed("bin/localplane up --nodes 3 --dialects native,openyurt")
	if more != "" {
		command = strings.Replace(command, "native,", "", 1) + more
	}
	w.up(command)
	return w
}

// up runs the plane until the test ends.
func (w *walk) up(command string) {
	w.t.Helper()
	log, err := os.Create(filepath.Join(w.dir, "up.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	up := w.command(context.Background(), "exec "+command)
	up.Stdout, up.Stderr = log, log
	if err := up.Start(); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	w.t.Cleanup(func() {
		if err := errors.Join(up.Process.Signal(syscall.SIGINT), <-ended, log.Close()); err != nil {
			w.t.Errorf("ending the plane: %v", err)
		}
		if w.t.Failed() {
			w.t.Logf("the plane's logs are kept in %s", w.dir)
		} else if err := os.RemoveAll(w.dir); err != nil {
			w.t.Error(err)
		}
	})
	w.poll("the plane is ready", func() error {
		out, err := os.ReadFile(log.Name())
		if err == nil && !regexp.MustCompile(`(?m)^ready `).Match(out) {
			err = fmt.Errorf("it says %s", out)
		}
		return err
	})
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(w.dir, ".localplane", "default", "kubeconfig"))
	if err != nil {
		w.t.Fatal(err)
	}
	if w.client, err = kubernetes.NewForConfig(config); err != nil {
		w.t.Fatal(err)
	}
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

func (w *walk) command(ctx context.Context, command string) *exec.Cmd {
	c := exec.CommandContext(ctx, "bash", "-c", command)
	c.Dir = w.dir
	c.Env = append(os.Environ(), "PATH="+filepath.Join(w.dir, "path")+":"+os.Getenv("PATH"))
	return c
}

// types runs a command of the page and returns what it prints.
func (w *walk) types(command string) string {
	w.t.Helper()
	return w.run(w.typed(command))
}

func (w *walk) run(command string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), harness.Patience)
	defer cancel()
	out, err := w.command(ctx, command).CombinedOutput()
	if err != nil {
		w.t.Fatalf("$ %s\n%s%v", command, out, err)
	}
	w.t.Logf("$ %s\n%s", command, out)
	return string(out)
}

// until types a command of the page again and again until it prints what is looked for.
func (w *walk) until(command string, looks ...look) {
	w.t.Helper()
	command = w.typed(command)
	var out []byte
	w.poll("$ "+command, func() error {
		var err error
		out, err = w.command(w.t.Context(), command).CombinedOutput()
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

func (w *walk) poll(what string, met func() error) {
	w.t.Helper()
	last := errors.New("not looked at yet")
	err := wait.PollUntilContextTimeout(w.t.Context(), 300*time.Millisecond, harness.Patience, true, func(context.Context) (bool, error) {
		last = met()
		return last == nil, nil
	})
	if err != nil {
		w.t.Fatalf("waited %s for this: %s; but %v", harness.Patience, what, last)
	}
}

// serve types the command that serves the API of node-0002, and keeps what it prints.
func (w *walk) serve(command string) {
	w.t.Helper()
	w.address = usual
	command = w.typed(command)
	if listener, err := net.Listen("tcp", usual); err != nil {
		w.t.Logf("%s is taken (%v): any other port serves", usual, err)
		command = strings.ReplaceAll(command, usual, "127.0.0.1:0")
	} else if err := listener.Close(); err != nil {
		w.t.Fatal(err)
	}
	printed := regexp.MustCompile(`^http://(\S+)\ntoken of the owner in (\S+)\n$`).FindStringSubmatch(w.run(command))
	if printed == nil {
		w.t.Fatal("it does not print where it is and which file holds the token")
	}
	token, err := os.ReadFile(printed[2])
	if err != nil {
		w.t.Fatal(err)
	}
	w.address, w.token = printed[1], strings.TrimSpace(string(token))
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
	w.poll("$ "+command, func() error {
		have, body, err := w.curl(command)
		if err == nil && (have != code || !strings.Contains(body, says)) {
			err = fmt.Errorf("it is answered %d %s, want %d and %q", have, body, code, says)
		}
		return err
	})
	w.t.Logf("$ %s", command)
}

func (w *walk) curl(command string) (int, string, error) {
	method := http.MethodGet
	words := strings.Fields(command)
	for i, word := range words {
		if word == "-X" {
			method = words[i+1]
		}
	}
	url := "http://" + strings.Trim(words[len(words)-1], `"`)
	request, err := http.NewRequestWithContext(w.t.Context(), method, url, nil)
	if err != nil {
		return 0, "", err
	}
	if strings.Contains(command, `-H "Authorization: Bearer $TOKEN"`) {
		request.Header.Set("Authorization", "Bearer "+w.token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), errors.Join(err, answer.Body.Close())
}

// pods are the pods of the set by node.
func (w *walk) pods() map[string]*corev1.Pod {
	w.t.Helper()
	list, err := w.client.CoreV1().Pods("default").List(w.t.Context(), metav1.ListOptions{LabelSelector: "app=nginx"})
	if err != nil {
		w.t.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Spec.NodeName] = &list.Items[i]
	}
	return pods
}
