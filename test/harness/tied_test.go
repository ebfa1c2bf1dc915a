// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// starterVariable makes TestTiedStarter start a process, print its pid and wait to be killed.
const starterVariable = "EVERYNODE_TEST_STARTER"

func TestTiedStarter(t *testing.T) {
	if os.Getenv(starterVariable) == "" {
		t.Skip("it is the other half of TestTiedProcessEndsWithItsStarter")
	}
	process, err := startTied(exec.Command("sleep", "60"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("pid %d\n", process.command.Process.Pid)
	<-process.ended
}

// TestTiedProcessEndsWithItsStarter kills a test process as the kernel or a CI system would.
func TestTiedProcessEndsWithItsStarter(t *testing.T) {
	starter := exec.Command(os.Args[0], "-test.run=^TestTiedStarter$")
	starter.Env = append(os.Environ(), starterVariable+"=1")
	out, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "pid "); found {
			pid, err = strconv.Atoi(text)
		}
	}
	if pid == 0 {
		_ = starter.Process.Kill()
		t.Fatalf("the starter printed no pid: %v, %v", err, starter.Wait())
	}
	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = starter.Wait() // "signal: killed"
	for deadline := time.Now().Add(time.Minute); running(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d has outlived the one that started it", pid)
		}
	}
}

// running is whether there is such a process that has not ended; one that ended and that nobody has reaped is none.
func running(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestTiedProcessIsKilled(t *testing.T) {
	process, err := startTied(exec.Command("sleep", "60"))
	if err != nil {
		t.Fatal(err)
	}
	process.kill()
	process.kill()
	if running(process.command.Process.Pid) {
		t.Error("it runs after the kill")
	}
	if _, err := startTied(exec.Command("/does/not/exist")); err == nil {
		t.Error("what does not exist was started")
	}
}
