// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// usage is what a process has used.
type usage struct {
	CPU  float64 // seconds, user and system
	Peak uint64  // bytes: the most that was resident since forgetPeak
	Read uint64  // bytes: nearly all of it is what the API server has sent
}

func readUsage(pid int) (usage, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return usage{}, fmt.Errorf("looking up process %d: %w", pid, err)
	}
	stat, err := process.Stat()
	if err != nil {
		return usage{}, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
	}
	status, err := process.NewStatus()
	if err != nil {
		return usage{}, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	io, err := process.IO()
	if err != nil {
		return usage{}, fmt.Errorf("reading what process %d has read: %w", pid, err)
	}
	return usage{CPU: stat.CPUTime(), Peak: status.VmHWM, Read: io.RChar}, nil
}

// machineUsage is what all cores together have done since the machine was started, in seconds of one core.
type machineUsage struct {
	cores  int
	busy   float64 // everything but waiting
	stolen float64 // of that, what the machine that this one is a guest of has given to others
}

func readMachine() (machineUsage, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return machineUsage{}, fmt.Errorf("opening /proc: %w", err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return machineUsage{}, fmt.Errorf("reading the CPU time of the machine: %w", err)
	}
	all := stat.CPUTotal
	return machineUsage{cores: len(stat.CPU), busy: all.User + all.Nice + all.System + all.IRQ + all.SoftIRQ + all.Steal, stolen: all.Steal}, nil
}

// share is which part of all cores was busy since before, for so many seconds, and which was stolen.
func (u machineUsage) share(before machineUsage, seconds float64) *coreShare {
	of := float64(u.cores) * seconds
	return &coreShare{Busy: (u.busy - before.busy) / of, Stolen: (u.stolen - before.stolen) / of}
}

// forgetPeak has the peak of the process begin anew (see clear_refs in proc(5)).
func forgetPeak(pid int) error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return fmt.Errorf("having the peak memory of process %d begin anew: %w", pid, err)
	}
	return nil
}

// since is what was used after before, of the same process.
func (u usage) since(before usage) usage {
	return usage{CPU: u.CPU - before.CPU, Peak: u.Peak, Read: u.Read - before.Read}
}

// and is what two processes have used, of which one followed the other.
func (u usage) and(next usage) usage {
	return usage{CPU: u.CPU + next.CPU, Peak: max(u.Peak, next.Peak), Read: u.Read + next.Read}
}

func TestUsage(t *testing.T) {
	before, err := readUsage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	machine, err := readMachine()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	large := make([]byte, size)
	for i := range large {
		large[i] = byte(i)
	}
	after, err := readUsage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after.Peak < size || after.Peak < before.Peak || after.CPU < before.CPU || after.Read <= before.Read {
		t.Errorf("before %+v, after %d bytes more %+v", before, len(large), after)
	}
	for usageOf(t).CPU < before.CPU+0.5 { // the kernel counts ticks
		large[0]++
	}
	now, err := readMachine()
	if err != nil {
		t.Fatal(err)
	}
	if cores := now.share(machine, time.Since(began).Seconds()); cores.Busy <= 0 || cores.Busy > 1.2 || cores.Stolen < 0 || cores.Stolen > cores.Busy {
		t.Errorf("of the cores are in use %+v", cores)
	}
	if err := forgetPeak(os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, err := readUsage(-1); err == nil {
		t.Error("there is a process -1")
	}
	first, second := usage{CPU: 2, Peak: 10, Read: 5}, usage{CPU: 1, Peak: 7, Read: 3}
	if sum := first.and(second); sum != (usage{CPU: 3, Peak: 10, Read: 8}) {
		t.Errorf("together %+v", sum)
	}
	if diff := first.since(second); diff != (usage{CPU: 1, Peak: 10, Read: 2}) {
		t.Errorf("since %+v", diff)
	}
}
