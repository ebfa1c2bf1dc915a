// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"everynode.dev/everynode/localplane/internal/proc"
)

// privileged checks whether this process has the capabilities for nodes; without them, no other check is possible.
func privileged(missing *MissingError) bool {
	if os.Geteuid() != 0 {
		missing.add("root", "run it as root (sudo), or in a virtual machine")
		return false
	}
	var caps [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &caps[0]); err != nil {
		missing.add("the capabilities of this process", fmt.Sprintf("reading them failed: %v", err))
		return false
	}
	ok := true
	for _, c := range []struct {
		bit  uint
		name string
	}{{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}} {
		if caps[0].Effective&(1<<c.bit) == 0 {
			missing.add(c.name, "in a container, start it with --privileged")
			ok = false
		}
	}
	return ok
}

// tryKernel tests in temporary namespaces what nodes need, and returns the snapshotter to use.
func tryKernel(home, nft string, missing *MissingError) string {
	var snapshotter string
	proc.OwnThread(func() { snapshotter = tryNamespaces(home, nft, missing) })
	return snapshotter
}

func tryNamespaces(home, nft string, missing *MissingError) string {
	// The PID namespace is tested with nft: if this thread had one, its first child would be the first process in it.
	if err := unix.Unshare(NodeNamespaces &^ unix.CLONE_NEWPID); err != nil {
		missing.add("namespaces", fmt.Sprintf("a kernel with CONFIG_NAMESPACES that lets root make them (%v)", err))
		return ""
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		missing.add("private mounts", fmt.Sprintf("in a container, start it with --privileged (%v)", err))
		return ""
	}
	if err := tryLinks(); err != nil {
		missing.add("network links", fmt.Sprintf("modprobe veth; modprobe bridge (%v)", err))
	}
	if nft != "" {
		if err := tryNft(nft); err != nil {
			missing.add("nf_tables", fmt.Sprintf("%s (%v)", proxyModules, err))
		}
	}
	overlay, err := tryOverlay(home)
	if err != nil {
		missing.add("a place for the nodes' disks", err.Error())
	}
	if overlay {
		return snapshotterOverlay
	}
	return snapshotterNative
}

func tryLinks() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = Bridge
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("adding a bridge: %w", err)
	}
	attrs.Name = Name(1)
	link := netlink.NewVeth(attrs)
	link.PeerName = nodeLink
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("adding a pair of veth: %w", err)
	}
	return nil
}

// proxyRules has one rule of each kind that kube-proxy writes.
const proxyRules = `table ip localplane {
	map services { type ipv4_addr . inet_proto . inet_service : verdict; }
	chain nodes { type nat hook prerouting priority -100; ip daddr . meta l4proto . th dport vmap @services; meta l4proto tcp goto endpoints; }
	chain endpoints { numgen random mod 2 vmap { 0 : goto endpoint, 1 : goto nobody }; }
	chain endpoint { meta l4proto tcp dnat to 10.0.0.1:80; }
	chain nobody { }
	chain leaving { type nat hook postrouting priority 100; meta mark & 0x4000 != 0 masquerade fully-random; }
	chain passing { type filter hook forward priority 0; ct state new reject; }
}`

const proxyModules = "modprobe -a nf_tables nft_chain_nat nft_ct nft_nat nft_masq nft_numgen nft_reject_ipv4"

func tryNft(nft string) error {
	cmd := exec.Command(nft, "-f", "-")
	cmd.Stdin = strings.NewReader(proxyRules)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	if out, err := cmd.CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("adding rules: %w: %s", err, first)
	}
	return nil
}

// checkName is the name of what a check creates temporarily. It is constant, so that the next check removes the remains
// of one that was killed.
const checkName = "localplane-check"

// tryOverlay mounts an overlay on the home's file system. The mount ends with this thread's namespace.
func tryOverlay(home string) (bool, error) {
	dir := filepath.Join(existing(home), "."+checkName)
	path := func(name string) string { return filepath.Join(dir, name) }
	defer os.RemoveAll(dir)
	if err := os.RemoveAll(dir); err != nil { // remains of a check that was killed
		return false, fmt.Errorf("choose a home that can be written to (%w)", err)
	}
	for _, name := range []string{"", "lower", "upper", "work", "merged"} {
		if err := os.Mkdir(path(name), 0o700); err != nil {
			return false, fmt.Errorf("choose a home that can be written to (%w)", err)
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", path("lower"), path("upper"), path("work"))
	if unix.Mount("overlay", path("merged"), "overlay", 0, options) != nil {
		return false, nil
	}
	if err := unix.Unmount(path("merged"), 0); err != nil {
		return false, fmt.Errorf("unmounting a test: %w", err)
	}
	return true, nil
}

// existing returns the path, or its nearest existing parent.
func existing(path string) string {
	for !exists(path) && filepath.Dir(path) != path {
		path = filepath.Dir(path)
	}
	return path
}

// kernelLog is read by the kubelet to detect processes that were killed because of memory.
const kernelLog = "/dev/kmsg"

// The number of inotify instances of a node and of the control plane, and a number that is sufficient for several
// planes.
const (
	watchesPerNode  = 8
	watchesOfPlane  = 8
	watchesOfPlanes = 1024
)

// checkDevices checks other requirements of the kubelet.
func checkDevices(nodes int, missing *MissingError) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err == nil {
		if release := unix.ByteSliceToString(uts.Release[:]); tooOld(release) {
			missing.add("Linux 5.13 or later", "a newer kernel, for instance in a virtual machine: this one is "+release)
		}
	}
	if log, err := os.Open(kernelLog); err != nil {
		missing.add(kernelLog, fmt.Sprintf("in a container, start it with --privileged (%v)", err))
	} else {
		_ = log.Close()
	}
	if want := nodes*watchesPerNode + watchesOfPlane; !canWatch(want) {
		missing.add(fmt.Sprintf("%d more instances of inotify", want), fmt.Sprintf("sysctl -w fs.inotify.max_user_instances=%d", max(watchesOfPlanes, 2*want)))
	}
}

// canWatch checks whether that many inotify instances can be created.
func canWatch(instances int) bool {
	var open []int
	defer func() {
		for _, fd := range open {
			_ = unix.Close(fd)
		}
	}()
	for range instances {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			return false
		}
		open = append(open, fd)
	}
	return true
}

// tooOld reports whether kube-proxy does not support a kernel. A release that cannot be parsed is assumed to be
// supported.
func tooOld(release string) bool {
	var major, minor int
	if n, err := fmt.Sscanf(release, "%d.%d", &major, &minor); n != 2 || err != nil {
		return false
	}
	return major < 5 || (major == 5 && minor < 13)
}

// tryOut creates a cgroup in each hierarchy and removes it. It is not an error if it exists: another process may make the
// same test, or was killed during it.
func (h hierarchies) tryOut() error {
	var errs []error
	for _, root := range h.roots {
		dir := filepath.Join(root, checkName)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
		}
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		if h.unified {
			errs = append(errs, couldDelegate(root))
		}
	}
	return errors.Join(errs...)
}

// checkCgroups checks the controllers that the kubelet requires, and whether cgroups can be created.
func checkCgroups(missing *MissingError) {
	h, err := readHierarchies()
	if err != nil {
		missing.add("cgroups", fmt.Sprintf("mount -t cgroup2 none %s (%v)", cgroupFS, err))
		return
	}
	needs := []string{"cpu", "cpuset", "memory", "pids"}
	if !h.unified {
		needs = append(needs, "cpuacct")
	}
	for _, name := range needs {
		if !slices.Contains(h.controllers, name) {
			missing.add("the cgroup controller "+name, "mount it (version 1) or let it be delegated to this cgroup (version 2), and boot without cgroup_disable="+name)
		}
	}
	if err := h.tryOut(); err != nil {
		missing.add("cgroups that can be written to", fmt.Sprintf("in a container, start it with --privileged --cgroupns=host (%v)", err))
	}
}
