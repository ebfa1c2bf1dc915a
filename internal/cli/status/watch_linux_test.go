// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/cli/status"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// session is a person in front of a terminal on which the verb runs.
type session struct {
	t       *testing.T
	cluster *fakecluster.Cluster
	reader  *os.File
	screen  *fakecluster.Emulator
	raw     strings.Builder
	output  chan []byte
	ended   chan error
	watched <-chan struct{} // closed when changes of pods are seen
	stop    context.CancelFunc
}

func begin(t *testing.T, roll fakecluster.Roll, env map[string]string, line string) *session {
	t.Helper()
	reader, terminal := fakecluster.OpenTerminal(t, 90, 24)
	s := &session{
		t: t, cluster: fakecluster.New(t, roll.Objects(t)...), reader: reader,
		screen: &fakecluster.Emulator{TB: t}, output: make(chan []byte, 100), ended: make(chan error, 1),
	}
	s.watched = s.cluster.Watched("pods")
	s.cluster.Env, s.cluster.Options.Out = env, terminal
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	t.Cleanup(stop)
	go func() { s.ended <- s.cluster.RunUntil(ctx, status.New, strings.Fields(line)...) }()
	go func() {
		for {
			buffer := make([]byte, 1<<16)
			n, err := reader.Read(buffer)
			if err != nil {
				return
			}
			s.output <- buffer[:n]
		}
	}()
	return s
}

// shows waits until the terminal shows a text.
func (s *session) shows(text string) {
	s.t.Helper()
	var pending []byte // a character may come in two pieces
	ended := s.ended
	for limit := time.After(2 * time.Minute); !strings.Contains(s.screen.Text(), text); {
		select {
		case data := <-s.output:
			pending = append(pending, data...)
			whole := len(pending)
			for whole > 0 && !utf8.Valid(pending[:whole]) {
				whole--
			}
			s.raw.Write(pending[:whole])
			s.screen.Play(string(pending[:whole]))
			pending = slices.Clone(pending[whole:])
		case err := <-ended:
			s.ended <- err
			ended, limit = nil, time.After(30*time.Second) // what it has written may still be on its way
		case <-limit:
			s.t.Fatalf("it never shows %q; the terminal shows\n%s", text, s.screen.Text())
		}
	}
}

// update gives a node the pod that the letter of a roll stands for.
func (s *session) update(node string, letter string) {
	s.t.Helper()
	select {
	case <-s.watched:
	case <-time.After(2 * time.Minute):
		s.t.Fatal("nobody watches pods")
	}
	pods := s.cluster.Kubernetes.CoreV1().Pods("default")
	old := "agent-" + node + "-" + fakecluster.OldHash[:3]
	if err := pods.Delete(s.t.Context(), old, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	made := fakecluster.Roll{Name: "agent", Letters: letter}.Pods()[0].(*corev1.Pod)
	made.Name, made.UID, made.Spec.NodeName = "agent-"+node+"-"+fakecluster.NewHash[:3], types.UID("new-on-"+node), node
	if _, err := pods.Create(s.t.Context(), made, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// A roll of four nodes is followed to its end, on a terminal that somebody makes smaller meanwhile.
func TestWatchOnATerminal(t *testing.T) {
	s := begin(t, fakecluster.Roll{Name: "agent", Letters: "uooo"}, map[string]string{"LANG": "C.UTF-8"}, "agent -w")
	s.shows("1/4 updated, 4 available")
	s.update("node-2", "u")
	s.shows("2/4 updated, 4 available")
	fakecluster.Resize(t, s.reader, 40, 24)
	s.update("node-3", "a")
	s.shows("3/4 updated, 3 available")
	for _, line := range strings.Split(s.screen.Text(), "\n") {
		if utf8.RuneCountInString(line) > 40 {
			t.Errorf("a line is longer than the terminal is wide: %q", line)
		}
	}
	s.update("node-4", "u")
	s.shows("4/4 updated, 3 available")
	if got := strings.Count(s.screen.Text(), "default/daemonset/agent"); got != 1 {
		t.Errorf("the picture is drawn %d times, not over itself:\n%s", got, s.screen.Text())
	}
	if !strings.Contains(s.raw.String(), "\x1b[32m") {
		t.Error("there are no colours")
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Errorf("Ctrl-C is no failure: %v", err)
	}
}

func TestWatchWithoutColours(t *testing.T) {
	s := begin(t, fakecluster.Roll{Name: "agent", Letters: "uu"}, map[string]string{"NO_COLOR": "1", "LC_ALL": "C"}, "agent -w --exit-status")
	s.shows("finished: default/daemonset/agent: 2 of 2 nodes are updated and available")
	if strings.Contains(s.raw.String(), "\x1b[3") || strings.Contains(s.raw.String(), "●") {
		t.Errorf("it is neither plain nor ASCII: %q", s.raw.String())
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}
