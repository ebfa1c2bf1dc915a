// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// namespaceKind is one kind of namespace.
type namespaceKind struct {
	file string
	flag int
}

// namespaceKinds returns the kinds in the order in which they are entered. The mount namespace comes last, because the
// steps before need the file system of this program.
func namespaceKinds() []namespaceKind {
	return []namespaceKind{
		{"pid", unix.CLONE_NEWPID}, {"net", unix.CLONE_NEWNET}, {"uts", unix.CLONE_NEWUTS}, {"ipc", unix.CLONE_NEWIPC}, {"mnt", unix.CLONE_NEWNS},
	}
}

// visit is a stay of the forking thread in the namespaces of another process, with the files to return.
type visit struct {
	flags int
	home  []openNamespace
}

type openNamespace struct {
	kind namespaceKind
	file *os.File
}

// enter moves the calling thread, which must be locked to its goroutine, to those namespaces of a process that differ
// from its own. If it fails, the thread is where it was, unless returning has failed too (errLost).
func enter(pid int) (*visit, error) {
	v := &visit{}
	// All files are opened first, because they are not visible in another mount namespace.
	var there []openNamespace
	defer func() { closeAll(there) }()
	for _, kind := range namespaceKinds() {
		own, other, err := openBoth(kind, pid)
		if err != nil {
			closeAll(v.home)
			return nil, err
		}
		if own != nil {
			v.home, there = append(v.home, openNamespace{kind, own}), append(there, openNamespace{kind, other})
		}
	}
	for _, ns := range there {
		if err := unix.Setns(int(ns.file.Fd()), ns.kind.flag); err != nil {
			return nil, errors.Join(fmt.Errorf("entering the %s namespace of process %d: %w", ns.kind.file, pid, err), v.leave())
		}
		v.flags |= ns.kind.flag
	}
	return v, nil
}

// openBoth opens the namespaces of this thread and of the other process; both are nil if they are the same.
func openBoth(kind namespaceKind, pid int) (own, other *os.File, err error) {
	own, err = os.Open("/proc/thread-self/ns/" + kind.file)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the own %s namespace: %w", kind.file, err)
	}
	other, err = os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind.file))
	if err != nil {
		_ = own.Close()
		return nil, nil, fmt.Errorf("opening the %s namespace of process %d, which must run: %w", kind.file, pid, err)
	}
	a, err1 := own.Stat()
	b, err2 := other.Stat()
	if err := errors.Join(err1, err2); err != nil || os.SameFile(a, b) {
		_, _ = own.Close(), other.Close()
		return nil, nil, err
	}
	return own, other, nil
}

// errLost reports that the forking thread could not return from the namespaces of another process.
var errLost = errors.New("the thread that starts processes is stuck in the namespaces of a node; start the plane again")

// leave moves the thread back. The mount namespace was entered last and is left first.
func (v *visit) leave() error {
	defer closeAll(v.home)
	var errs []error
	for i := len(v.home) - 1; i >= 0; i-- {
		ns := v.home[i]
		if v.flags&ns.kind.flag == 0 {
			continue
		}
		if err := unix.Setns(int(ns.file.Fd()), ns.kind.flag); err != nil {
			errs = append(errs, errLost, fmt.Errorf("leaving the %s namespace: %w", ns.kind.file, err))
		}
	}
	return errors.Join(errs...)
}

func closeAll(list []openNamespace) {
	for _, ns := range list {
		_ = ns.file.Close()
	}
}
