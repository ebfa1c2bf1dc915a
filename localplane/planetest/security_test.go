// SPDX-License-Identifier: Apache-2.0

package planetest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// processes lists the processes that have the directory in their command line.
func processes(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && strings.Contains(string(raw), dir) && (strings.Contains(string(raw), "component-run") || strings.Contains(string(raw), "\x00dashboard\x00")) {
			found[e.Name()] = strings.ReplaceAll(string(raw), "\x00", " ")
		}
	}
	return found
}

func nothingRuns(t *testing.T, dir string) {
	t.Helper()
	for pid, line := range processes(t, dir) {
		t.Errorf("process %s still runs: %.120s", pid, line)
	}
}

// loopbackOnly compares the sockets of the plane's processes with the kernel's table of listeners.
func (f *fixture) loopbackOnly(t *testing.T) {
	const listening = "0A"
	checked := 0
	for pid := range processes(t, f.plane.Dir()) {
		own := sockets(t, pid)
		for _, table := range []string{"tcp", "tcp6"} {
			raw, err := os.ReadFile(filepath.Join("/proc", pid, "net", table))
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(string(raw), "\n")[1:] {
				fields := strings.Fields(line)
				if len(fields) < 10 || fields[3] != listening || !own[fields[9]] {
					continue
				}
				checked++
				if !strings.HasPrefix(fields[1], "0100007F:") {
					t.Errorf("process %s listens on %s", pid, fields[1])
				}
			}
		}
	}
	// etcd has two, and four others have one each.
	if checked < 6 {
		t.Errorf("only %d listening sockets were found", checked)
	}
	err := filepath.WalkDir(f.plane.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		inPKI := strings.HasPrefix(path, filepath.Join(f.plane.Dir(), "pki")) || path == f.plane.Kubeconfig()
		if inPKI && info.Mode().Perm()&0o077 != 0 {
			return fmt.Errorf("%s has mode %s", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func sockets(t *testing.T, pid string) map[string]bool {
	t.Helper()
	own := map[string]bool{}
	dir := filepath.Join("/proc", pid, "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err == nil && strings.HasPrefix(target, "socket:[") {
			own[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	return own
}

func (f *fixture) anonymous(t *testing.T) {
	client, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(f.plane.RESTConfig()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("an anonymous request was answered: %v", err)
	}
	if _, err := client.Discovery().ServerVersion(); !apierrors.IsUnauthorized(err) {
		t.Errorf("an anonymous request for the version was answered: %v", err)
	}
}
