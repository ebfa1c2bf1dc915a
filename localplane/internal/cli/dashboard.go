// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"everynode.dev/everynode/localplane/internal/proc"
)

const (
	// dashboardProgram is the program with the dashboard, in the directory of this program.
	dashboardProgram = "kubectl-everynode"
	// dashboardPatience is how long the dashboard may take to print its URL, dashboardGrace how long it may take to end.
	dashboardPatience = time.Minute
	dashboardGrace    = 5 * time.Second
)

// dashboard is the dashboard of a plane, in a process of its own.
type dashboard struct {
	spawner *proc.Spawner
	process *proc.Process
}

// serveDashboard starts the dashboard of a plane, and says its URL. Without it the plane is the same, so a problem is only said.
func (a *app) serveDashboard(ctx context.Context, kubeconfig string) *dashboard {
	d := &dashboard{}
	self, err := os.Executable()
	if err == nil {
		var url string
		if url, err = d.start(ctx, filepath.Join(filepath.Dir(self), dashboardProgram), kubeconfig); err == nil {
			a.say("to see it in the browser: %s", url)
			return d
		}
	}
	if ctx.Err() == nil {
		a.say("the dashboard is not served: %v; with bin/%s, from make build-kubectl: KUBECONFIG=%s bin/%[2]s dashboard", err, dashboardProgram, kubeconfig)
	}
	return d
}

// start starts the program, and returns the URL that it prints.
func (d *dashboard) start(ctx context.Context, program, kubeconfig string) (url string, err error) {
	printed := &firstURL{found: make(chan string, 1)}
	d.spawner = proc.NewSpawner()
	d.process, err = d.spawner.Start(proc.Command{
		Path: program, Args: []string{"dashboard", "--open=false", "--listen=127.0.0.1:0", "--kubeconfig=" + kubeconfig}, Output: printed,
	})
	if err != nil {
		return "", err
	}
	patience := time.NewTimer(dashboardPatience)
	defer patience.Stop()
	select {
	case url = <-printed.found:
		return url, nil
	case <-d.process.Done():
		return "", fmt.Errorf("it has ended with %s: %s", d.process.ExitReason(), printed.text())
	case <-patience.C:
		return "", fmt.Errorf("it has printed no URL after %s: %s", dashboardPatience, printed.text())
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// stop ends the program, if it runs.
func (d *dashboard) stop() error {
	if d.spawner == nil {
		return nil
	}
	defer d.spawner.Close()
	if d.process == nil {
		return nil
	}
	return d.process.Stop(dashboardGrace)
}

// mostPrinted is the maximum size of what is kept of the output of the dashboard.
const mostPrinted = 16 << 10

// firstURL is a writer that finds the first line that is a URL. It keeps the begin of what is written, for a message.
type firstURL struct {
	found chan string

	mu      sync.Mutex
	written bytes.Buffer
	done    bool
}

func (f *firstURL) Write(data []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written.Write(data[:min(len(data), mostPrinted-f.written.Len())])
	lines := strings.Split(f.written.String(), "\n")
	for _, line := range lines[:len(lines)-1] {
		if !f.done && strings.HasPrefix(line, "http://") {
			f.done = true
			f.found <- line
		}
	}
	return len(data), nil
}

func (f *firstURL) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.TrimSpace(f.written.String())
}
