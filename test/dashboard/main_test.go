// SPDX-License-Identifier: Apache-2.0

// Package dashboard tests kubectl everynode dashboard, as the program that it is, on a real control plane with simulated nodes: what its streams say is compared
// with what the API server has, and the page is opened in a headless Chromium.
//
//	go test ./dashboard -run TestSmokeStream     a rollout, followed by server-sent events
//	go test ./dashboard -run TestSmokeBrowser    the page; skipped where there is no Chromium
package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

const (
	// allNodes is how many nodes the plane has, nodes how many the test of the streams has, and pictured that of the page.
	allNodes = 66
	nodes    = 6
	pictured = 60
	set      = "agent"
	// onPlane is in the commands for a shell: the context of the plane's kubeconfig.
	onPlane = " --context=localplane"
)

var shared = harness.Shared{Options: func() (harness.Options, error) {
	p := simkubelet.Realistic()
	p.ImagePull, p.ContainerStart, p.ContainerReady = 200*time.Millisecond, 50*time.Millisecond, 150*time.Millisecond
	p.ContainerStop, p.PodStop, p.InitRun = 100*time.Millisecond, 200*time.Millisecond, 50*time.Millisecond
	return harness.Options{Nodes: allNodes, Controller: harness.Everynode, Advanced: true, Sim: &p}, nil
}}

func TestMain(m *testing.M) {
	begun := time.Now()
	code := shared.Run(m)
	if err := stamp(begun); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// built is the page of which the pictures are.
const built = "../../internal/cli/dashboard/static"

// stamp notes of which page the pictures are, if all of them were taken in this run. hack/tools/web compares it with the page.
func stamp(begun time.Time) error {
	if *pictures == "" {
		return nil
	}
	names, err := filepath.Glob(filepath.Join(*pictures, "dashboard-*.png"))
	for _, name := range names {
		taken, err := os.Stat(name)
		if err != nil || taken.ModTime().Before(begun) {
			return err // it is older: take all of them with make pictures
		}
	}
	sum := sha256.New()
	for _, name := range []string{"app.css", "app.js", "index.html"} {
		data, readErr := os.ReadFile(filepath.Join(built, name))
		sum.Write(data)
		err = errors.Join(err, readErr)
	}
	return errors.Join(err, os.WriteFile(filepath.Join(*pictures, "dashboard.sha256"), fmt.Appendf(nil, "%x\n", sum.Sum(nil)), 0o644))
}

// dashboard is a running dashboard, and a session with it.
type dashboard struct {
	t                *testing.T
	s                *harness.Space
	url              string // with the token
	address, session string
}

// start starts the program for the namespace of a space.
func start(t *testing.T, s *harness.Space, more ...string) *dashboard {
	t.Helper()
	program := filepath.Join(harness.BinDir(), "kubectl-everynode")
	command := exec.Command(program, append([]string{"dashboard", "--open=false", "--listen", "127.0.0.1:0", "--namespace", s.Name}, more...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.Cluster.Plane.Kubeconfig())
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatalf("running %s: %v (make build-kubectl builds it)", program, err)
	}
	t.Cleanup(func() {
		if err := command.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("after Ctrl-C it ends with %v: %s", err, problems.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("it has printed no URL: %v: %s", err, problems.String())
	}
	d := &dashboard{t: t, s: s, url: strings.TrimSpace(line)}
	address, token, _ := strings.Cut(d.url, "#token=")
	d.address = address
	answer := d.send(t.Context(), http.MethodPost, "api/session", `{"token": "`+token+`"}`)
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusNoContent || len(answer.Cookies()) != 1 {
		t.Fatalf("the token is answered with %s", answer.Status)
	}
	d.session = answer.Cookies()[0].String()
	return d
}

func (d *dashboard) send(ctx context.Context, method, path, body string) *http.Response {
	d.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, d.address+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("X-Everynode-Dashboard", "1")
	r.Header.Set("Content-Type", "application/json")
	if d.session != "" {
		r.Header.Set("Cookie", strings.Split(d.session, ";")[0])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer
}

// cell is a cell, as far as it is looked at.
type cell struct {
	Node    string `json:"k"`
	Verdict string `json:"v"`
	Reason  string `json:"r"`
	Pods    []struct{ Name, Revision, State string }
}

// viewer follows the page of a set.
type viewer struct {
	mu    sync.Mutex
	cells map[string]cell
	head  struct {
		State, Revision, Lost       string
		Desired, Updated, Available int
	}
	// whole and parts are how many messages had everything, and how many had cells that changed.
	whole, parts int
	ended        bool
}

func (d *dashboard) follow() *viewer {
	d.t.Helper()
	answer := d.send(d.t.Context(), http.MethodGet, "api/set/stream?namespace="+d.s.Name+"&set=daemonset/"+set, "") //nolint:bodyclose // the goroutine closes it
	if answer.StatusCode != http.StatusOK {
		d.t.Fatalf("the stream is answered with %s", answer.Status)
	}
	v := &viewer{cells: map[string]cell{}}
	go func() {
		defer func() { _ = answer.Body.Close() }()
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			if data, is := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); is {
				v.take(data)
			}
		}
		v.mu.Lock()
		v.ended = true
		v.mu.Unlock()
	}()
	return v
}

func (v *viewer) take(data []byte) {
	var m struct {
		Full  bool
		Parts map[string]json.RawMessage
		Items []struct {
			cell
			P json.RawMessage `json:"p"`
		}
		Gone []string
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if json.Unmarshal(data, &m) != nil {
		v.ended = true // the test sees that cells do not come
		return
	}
	if m.Full {
		v.cells = map[string]cell{}
		v.whole++
	} else if len(m.Items) > 0 {
		v.parts++
	}
	for _, one := range m.Items {
		c := one.cell
		_ = json.Unmarshal(one.P, &c.Pods) // a cell without pods has none
		v.cells[c.Node] = c
	}
	for _, key := range m.Gone {
		delete(v.cells, key)
	}
	if raw, has := m.Parts["head"]; has {
		v.head.Lost = ""
		_ = json.Unmarshal(raw, &v.head) // the test compares it
	}
}

// agrees compares the cells with the pods of the API server: each node has the revision and the state of its pod, and is up to date only if that is ready and new.
func (d *dashboard) agrees(v *viewer) error {
	now, err := d.s.Cluster.Client.AppsV1().DaemonSets(d.s.Name).Get(d.s.Context(), set, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pods, err := d.s.Cluster.Client.CoreV1().Pods(d.s.Name).List(d.s.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	status := now.Status
	wrote := [3]int{int(status.DesiredNumberScheduled), int(status.UpdatedNumberScheduled), int(status.NumberAvailable)}
	if said := [3]int{v.head.Desired, v.head.Updated, v.head.Available}; status.ObservedGeneration != now.Generation || said != wrote || v.head.Lost != "" {
		return fmt.Errorf("desired, updated and available are said to be %v, and the controller says %v (lost: %q)", said, wrote, v.head.Lost)
	}
	byNode := map[string][]*corev1.Pod{}
	for i := range pods.Items {
		byNode[pods.Items[i].Spec.NodeName] = append(byNode[pods.Items[i].Spec.NodeName], &pods.Items[i])
	}
	if len(v.cells) != len(d.s.Nodes) {
		return fmt.Errorf("there are %d cells, and %d nodes", len(v.cells), len(d.s.Nodes))
	}
	for _, node := range d.s.Nodes {
		if err := v.cells[node].agrees(byNode[node], v.head.Revision); err != nil {
			return fmt.Errorf("%s: %w", node, err)
		}
	}
	return nil
}

func (c cell) agrees(pods []*corev1.Pod, revision string) error {
	if len(c.Pods) != len(pods) {
		return fmt.Errorf("%d pods are said to be there, and there are %d", len(c.Pods), len(pods))
	}
	fresh := false
	for i, pod := range pods {
		if len(pods) == 1 && (c.Pods[i].Name != pod.Name || c.Pods[i].Revision != pod.Labels["controller-revision-hash"] || (c.Pods[i].State == "ready") != harness.Ready(pod)) {
			return fmt.Errorf("the pod is said to be %+v, and is %s, ready %t", c.Pods[i], pod.Name, harness.Ready(pod))
		}
		fresh = fresh || harness.Ready(pod) && pod.DeletionTimestamp == nil && pod.Labels["controller-revision-hash"] == revision
	}
	if fresh != (c.Verdict == "up-to-date") {
		return fmt.Errorf("the verdict is %s, and a new pod is ready: %t", c.Verdict, fresh)
	}
	return nil
}
