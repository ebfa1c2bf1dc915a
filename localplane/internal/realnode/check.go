// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CheckOptions are the requirements for real nodes.
type CheckOptions struct {
	// Home is the directory of the plane; the nodes' disks are on its file system.
	Home string
	// Containerd is the containerd to use; empty means the one in the PATH. Its shim must be in the same directory, or
	// in the PATH.
	Containerd string
	// Node is the program that contains kubelet and kube-proxy; Built are other required programs of Everynode.
	Node  string
	Built []string
	// Nodes is the number of nodes.
	Nodes int
}

// Programs are the programs for real nodes.
type Programs struct {
	Containerd, Runc, Nft string
	// CNIDir is the directory of the CNI plugins.
	CNIDir string
	// Node is the program that contains kubelet and kube-proxy.
	Node string
	// ContainerdMajor is containerd's major version, on which the format of its configuration depends.
	ContainerdMajor int
	// Snapshotter is the containerd snapshotter that works on the home's file system.
	Snapshotter string
}

// Dirs returns the directories of the programs, which must be visible in a node. If a program is a symbolic link, the
// directories of both are included.
func (p Programs) Dirs() []string {
	var dirs []string
	add := func(path string, of func(string) string) {
		if path == "" {
			return
		}
		dirs = append(dirs, of(path))
		if target, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, of(target))
		}
	}
	for _, program := range []string{p.Containerd, p.Runc, p.Nft, p.Node} {
		add(program, filepath.Dir)
	}
	add(p.CNIDir, filepath.Clean)
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// Missing is a missing requirement, and its remedy.
type Missing struct {
	What, Remedy string
}

// MissingError lists everything that is missing.
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

// Check checks whether this machine can run real nodes and returns the programs to use. Its error is a *MissingError.
func Check(o CheckOptions) (Programs, error) {
	missing := &MissingError{}
	programs := findPrograms(o, missing)
	if privileged(missing) {
		programs.Snapshotter = tryKernel(o.Home, programs.Nft, missing)
		checkDevices(o.Nodes, missing)
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

// cniDirs are the usual directories of CNI plugins; cniPlugins are the required plugins.
func cniDirs() []string    { return []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} }
func cniPlugins() []string { return []string{"ptp", "host-local", "loopback", "portmap"} }

func findPrograms(o CheckOptions, missing *MissingError) Programs {
	p := Programs{
		Containerd: findContainerd(o, missing),
		Runc:       find("runc", "apt-get install runc", missing),
		Nft:        find("nft", "apt-get install nftables", missing),
		CNIDir:     findCNI(missing),
		Node:       o.Node,
	}
	find("mount", "apt-get install mount", missing)       // the kubelet uses it to mount volumes
	find("iptables", "apt-get install iptables", missing) // the plugin portmap uses it to open host ports
	for _, path := range append([]string{o.Node}, o.Built...) {
		if !isProgram(path) {
			missing.add("the program "+path, "make build-real")
		}
	}
	if p.Containerd == "" {
		return p
	}
	major, err := containerdMajor(p.Containerd)
	if err != nil {
		missing.add("a containerd of version 1.6 or later, or 2", fmt.Sprintf("apt-get install containerd, or name another one with --containerd PATH (%v)", err))
	}
	p.ContainerdMajor = major
	return p
}

// find looks for a program in the PATH and in the directories for system programs, which root's PATH may lack.
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
		missing.add("containerd at "+o.Containerd, "name a program with --containerd PATH (apt-get install containerd makes /usr/bin/containerd)")
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

// versionTimeout is the timeout of --version.
const versionTimeout = 10 * time.Second

func containerdMajor(path string) (int, error) {
	cmd := exec.Command(path, "--version")
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Start()
	if err == nil {
		defer time.AfterFunc(versionTimeout, func() { _ = cmd.Process.Kill() }).Stop()
		err = cmd.Wait()
	}
	if err != nil {
		return 0, fmt.Errorf("asking %s for its version: %w", path, err)
	}
	return parseMajor(out.String())
}

// parseMajor parses the output of containerd --version: "containerd github.com/containerd/containerd/v2 v2.1.4
// 75cb2b71…", or "… 1.6.20~ds1 1.6.20~ds1-1+deb12u2" on Debian. Versions before 1.6 do not support the CRI version of
// current kubelets.
func parseMajor(version string) (int, error) {
	match := regexp.MustCompile(`^containerd\s(?:.*?\s)?v?(\d+)\.(\d+)\.\d+`).FindStringSubmatch(version)
	if match == nil {
		return 0, errors.New("no version of containerd is " + strconv.Quote(version))
	}
	major, err1 := strconv.Atoi(match[1])
	minor, err2 := strconv.Atoi(match[2])
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("reading the version %s.%s: %w", match[1], match[2], err)
	}
	if major < 1 || major > 2 || (major == 1 && minor < 6) {
		return 0, fmt.Errorf("containerd %d.%d is neither", major, minor)
	}
	return major, nil
}
