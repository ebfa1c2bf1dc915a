// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"everynode.dev/everynode/localplane"
)

// Renew asks a component to end, as a kubelet asks a container, and returns when another process runs and is ready.
func (c *Cluster) Renew(t testing.TB, component string) {
	t.Helper()
	before := c.component(t, component)
	if before.PID == 0 {
		t.Fatalf("%s does not run: it is %s", component, before.State)
	}
	if err := syscall.Kill(before.PID, syscall.SIGTERM); err != nil {
		t.Fatalf("asking %s to end: %v", component, err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, Patience, false, func(context.Context) (bool, error) {
		return c.component(t, component).PID != before.PID, nil
	})
	if err != nil {
		t.Fatalf("waited %s for the end of %s\n%s", Patience, component, c.logTail(component))
	}
	c.StartComponent(t, component) // otherwise it would be restarted later each time
}

// Runs reports whether a component has a process.
func (c *Cluster) Runs(t testing.TB, component string) bool {
	t.Helper()
	return c.component(t, component).PID != 0
}

// Program returns the path of the program of a component, with symbolic links resolved.
func (c *Cluster) Program(t testing.TB, component string) string {
	t.Helper()
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.component(t, component).PID))
	if err != nil {
		t.Fatalf("looking for the program of %s: %v", component, err)
	}
	return path
}

func (c *Cluster) component(t testing.TB, name string) localplane.ComponentStatus {
	t.Helper()
	status, err := c.Plane.Status(t.Context())
	if err != nil {
		t.Fatalf("asking how the plane is: %v", err)
	}
	for _, component := range status.Components {
		if component.Name == name {
			return component
		}
	}
	t.Fatalf("the plane has no component %s", name)
	return localplane.ComponentStatus{}
}
