// SPDX-License-Identifier: Apache-2.0

package home

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// HeldError reports that another supervisor holds the lock.
type HeldError struct {
	Dir string
	// PID is the pid of the holder, 0 if it has not written it yet.
	PID int
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("directory %s is held by process %d (localplane up): stop that one with `localplane down --dir %s`, or name another --dir",
		e.Dir, e.PID, e.Dir)
}

// Lock is the exclusive right to run a plane in a home. The kernel releases it when the process ends.
type Lock struct {
	file *os.File
}

// Lock acquires the lock, or returns a *HeldError.
func (h Home) Lock() (*Lock, error) {
	f, err := os.OpenFile(h.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, h.unusable(err)
	}
	if err := flock(f, func() { <-time.After(lookTime) }); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &HeldError{Dir: h.root, PID: readPID(f)}
		}
		return nil, fmt.Errorf("locking %s: %w", h.root, err)
	}
	if err := errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", h.root, err)
	}
	return &Lock{file: f}, nil
}

// lookTime is longer than Holder needs for its check.
const lookTime = 20 * time.Millisecond

// flock acquires the lock. Holder acquires the lock for a moment if it is free, which must not be mistaken for a
// running plane (with the pid of a process that ended long ago): so there is a second attempt after a pause.
func flock(f *os.File, pause func()) error {
	const how = syscall.LOCK_EX | syscall.LOCK_NB
	err := syscall.Flock(int(f.Fd()), how)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pause()
		err = syscall.Flock(int(f.Fd()), how)
	}
	return err
}

// Unlock releases the home.
func (l *Lock) Unlock() error { return l.file.Close() }

// Holder returns the pid of the process that holds the home; ok is false if none does.
func (h Home) Holder() (pid int, ok bool) {
	f, err := os.Open(h.lockFile())
	if err != nil {
		return 0, false
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err == nil {
		return 0, false
	}
	return readPID(f), true
}

// Running returns the directories next to this one, and others that are named, in which a plane runs.
func (h Home) Running(others ...string) []string {
	entries, _ := os.ReadDir(filepath.Dir(h.root)) // without the directory there are no planes in it
	for _, entry := range entries {
		others = append(others, filepath.Join(filepath.Dir(h.root), entry.Name()))
	}
	var dirs []string
	for _, dir := range others {
		other, err := At(dir)
		if err != nil || other.root == h.root || slices.Contains(dirs, other.root) {
			continue
		}
		if _, err := os.Stat(other.path(marker)); err != nil {
			continue
		}
		if _, running := other.Holder(); running {
			dirs = append(dirs, other.root)
		}
	}
	return dirs
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

func readPID(f *os.File) int {
	raw, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0
	}
	return pid
}
