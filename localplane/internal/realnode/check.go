// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// CheckOptions say what real nodes are to be made of.
type CheckOptions struct {
	// Home is the directory of the plane, on whose file system the nodes' disks are.
	Home string
	// Containerd is the containerd to use; empty means the one in the PATH. Its shim has to be beside it, or in the PATH.
	Containerd string
	// Node is the program that is kubelet and kube-proxy.
	Node string
}

// Programs are what real nodes are made of.
type Programs struct {
	Containerd, Runc, Nft string
	// CNIDir is the directory of the CNI plugins.
	CNIDir string
	// Node is the program that is kubelet and kube-proxy.
	Node string
	// ContainerdMajor is containerd's major version, on which the format of its configuration depends.
	ContainerdMajor int
	// Snapshotter is the containerd snapshotter that works on the home's file system.
	Snapshotter string
}

// Missing is one thing that real nodes need, and how to get it.
type Missing struct {
	What, Remedy string
}

// MissingError lists everything that is missing, so that nobody has to try again for each single thing.
type MissingError struct {
	Missing []Missing
}

func (e *MissingError) Error() string {
	var text strings.Builder
	text.WriteString("real nodes need what is missing here:")
	for _, m := range e.Missing {
		text.WriteString("\n  - " + m.What + ": " + m.Remedy)
	}
	return text.String()
}

func (e *MissingError) add(what, remedy string) {
	e.Missing = append(e.Missing, Missing{What: what, Remedy: remedy})
}

// Check finds out whether real nodes can work on this machine and returns the programs to use. Its error is a
// *MissingError, which may be about many things at once.
func Check(o CheckOptions) (Programs, error) {
	missing := &MissingError{}
	programs := findPrograms(o, missing)
	if privileged(missing) {
		programs.Snapshotter = tryKernel(o.Home, programs.Nft, missing)
		checkCgroups(missing)
	}
	if len(missing.Missing) > 0 {
		return Programs{}, missing
	}
	return programs, nil
}

const (
	snapshotterOverlay = "overlayfs"
	snapshotterNative  = "native"
)

// cniDirs are where distributions and people put CNI plugins; cniPlugins those that a node needs.
func cniDirs() []string    { return []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} }
func cniPlugins() []string { return []string{"bridge", "host-local", "loopback", "portmap"} }

func findPrograms(o CheckOptions, missing *MissingError) Programs {
	p := Programs{
		Containerd: findContainerd(o, missing),
		Runc:       find("runc", "apt-get install runc", missing),
		Nft:        find("nft", "apt-get install nftables", missing),
		CNIDir:     findCNI(missing),
		Node:       o.Node,
	}
	find("mount", "apt-get install mount", missing) // the kubelet mounts volumes with it
	if !isProgram(o.Node) {
		missing.add("the node's program "+o.Node+" (kubelet and kube-proxy)", "make build")
	}
	if p.Containerd == "" {
		return p
	}
	major, err := containerdMajor(p.Containerd)
	if err != nil {
		missing.add("a containerd that tells its version", fmt.Sprintf("name another one with --containerd PATH (%v)", err))
	}
	p.ContainerdMajor = major
	return p
}

// find looks for a program in the PATH and, because root's PATH may lack them, in the directories for root's programs.
func find(name, remedy string, missing *MissingError) string {
	if path, err := exec.LookPath(name); err == nil {
		if absolute, err := filepath.Abs(path); err == nil {
			return absolute
		}
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path := filepath.Join(dir, name); isProgram(path) {
			return path
		}
	}
	missing.add(name, remedy)
	return ""
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func findContainerd(o CheckOptions, missing *MissingError) string {
	const shim, remedy = "containerd-shim-runc-v2", "apt-get install containerd"
	if o.Containerd == "" {
		path := find("containerd", remedy, missing)
		if path == "" || !isProgram(filepath.Join(filepath.Dir(path), shim)) {
			find(shim, remedy, missing)
		}
		return path
	}
	path, err := filepath.Abs(o.Containerd)
	if err != nil || !isProgram(path) {
		missing.add("containerd at "+o.Containerd, "name a program with --containerd PATH, or leave the flag out and apt-get install containerd")
		return ""
	}
	if beside := filepath.Join(filepath.Dir(path), shim); !isProgram(beside) {
		missing.add(beside, "put the shim of the same containerd there")
	}
	return path
}

func findCNI(missing *MissingError) string {
	lacks := func(dir string) []string {
		return slices.DeleteFunc(cniPlugins(), func(name string) bool { return isProgram(filepath.Join(dir, name)) })
	}
	for _, dir := range cniDirs() {
		if len(lacks(dir)) == 0 {
			return dir
		}
	}
	missing.add(fmt.Sprintf("the CNI plugins %s in one of %s", strings.Join(cniPlugins(), ", "), strings.Join(cniDirs(), ", ")),
		"apt-get install containernetworking-plugins")
	return ""
}

func containerdMajor(path string) (int, error) {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("asking %s for its version: %w", path, err)
	}
	return parseMajor(string(out))
}

// parseMajor reads what containerd --version prints: "containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b71…",
// or "… 1.6.20~ds1 1.6.20~ds1-1+deb12u2" on Debian.
func parseMajor(version string) (int, error) {
	match := regexp.MustCompile(`\sv?(\d+)\.\d+\.\d+`).FindStringSubmatch(version)
	if match == nil {
		return 0, errors.New("there is no version in " + strconv.Quote(version))
	}
	major, err := strconv.Atoi(match[1])
	if err != nil {
		return 0, fmt.Errorf("reading the version %q: %w", match[1], err)
	}
	if major < 1 || major > 2 {
		return 0, fmt.Errorf("containerd %s: only versions 1 and 2 are known", strings.TrimSpace(match[0]))
	}
	return major, nil
}
