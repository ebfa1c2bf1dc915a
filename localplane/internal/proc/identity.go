// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTicks is the unit of the times in /proc/PID/stat: USER_HZ, which is 100 on every architecture that Go supports on Linux.
const clockTicks = 100

// Identity identifies one process uniquely.
type Identity struct {
	PID int `json:"pid"`
	// StartTicks is the start of the process in clock ticks after boot.
	StartTicks uint64 `json:"startTicks"`
	// BootID is the kernel's random ID of this boot.
	BootID string `json:"bootID"`
}

// Usage is the resource usage of a process.
type Usage struct {
	// CPU is user plus system time.
	CPU time.Duration
	// RSS is the resident memory in bytes.
	RSS uint64
}

// stat has the fields of /proc/PID/stat that are used here.
type stat struct {
	state      byte
	cpuTicks   uint64
	startTicks uint64
}

// Identify returns the identity of the running process with this pid.
func Identify(pid int) (Identity, error) {
	s, err := readStat(pid)
	if err != nil {
		return Identity{}, err
	}
	boot, err := bootID()
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, StartTicks: s.startTicks, BootID: boot}, nil
}

// Alive reports whether this process still runs. A zombie does not.
func (id Identity) Alive() bool {
	if id.PID <= 0 {
		return false
	}
	boot, err := bootID()
	if err != nil || boot != id.BootID {
		return false
	}
	s, err := readStat(id.PID)
	return err == nil && s.startTicks == id.StartTicks && s.state != 'Z' && s.state != 'X'
}

// End sends SIGKILL to exactly this process, if it runs, and does not wait.
func (id Identity) End() error {
	if !id.Alive() {
		return nil
	}
	if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending process %d: %w", id.PID, err)
	}
	return nil
}

// Kill ends exactly this process with SIGKILL and waits for its end.
func (id Identity) Kill(timeout time.Duration) error {
	if err := id.End(); err != nil {
		return err
	}
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for id.Alive() {
		select {
		case <-look.C:
		case <-deadline.C:
			return id.lingers(timeout)
		}
	}
	return nil
}

// lingers is the error for a process that has not ended after SIGKILL. The first process of a PID namespace waits until
// all others are reaped, and one parent may be outside and stopped.
func (id Identity) lingers(since time.Duration) error {
	return fmt.Errorf("process %d still runs %s after SIGKILL: if a `localplane node exec` was stopped (Ctrl-Z), go on with it (`fg`) or end it with `kill -9`", id.PID, since)
}

// ReadUsage returns the resource usage of the process with this pid.
func ReadUsage(pid int) (Usage, error) {
	s, err := readStat(pid)
	if err != nil {
		return Usage{}, err
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 2 {
		return Usage{}, fmt.Errorf("reading the memory of process %d: statm has %d fields", pid, len(fields))
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return Usage{}, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	return Usage{
		CPU: time.Duration(s.cpuTicks) * time.Second / clockTicks,
		RSS: pages * uint64(os.Getpagesize()),
	}, nil
}

func readStat(pid int) (stat, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, fmt.Errorf("looking up process %d: %w", pid, err)
	}
	s, err := parseStat(string(raw))
	if err != nil {
		return stat{}, fmt.Errorf("looking up process %d: %w", pid, err)
	}
	return s, nil
}

// parseStat parses a line like "42 (a) b) S 1 42 …": the name in brackets may contain brackets and blanks, so fields
// are counted from the last closing bracket. The first field after it is number 3 of proc(5), the state.
func parseStat(line string) (stat, error) {
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return stat{}, errors.New("stat has no process name")
	}
	fields := strings.Fields(line[end+1:])
	const (
		first = 3
		utime = 14 - first
		stime = 15 - first
		start = 22 - first
	)
	if len(fields) <= start {
		return stat{}, fmt.Errorf("stat has only %d fields", len(fields)+2)
	}
	user, err1 := strconv.ParseUint(fields[utime], 10, 64)
	system, err2 := strconv.ParseUint(fields[stime], 10, 64)
	began, err3 := strconv.ParseUint(fields[start], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return stat{}, fmt.Errorf("reading stat: %w", err)
	}
	return stat{state: fields[0][0], cpuTicks: user + system, startTicks: began}, nil
}

func bootID() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}
