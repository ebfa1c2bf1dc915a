// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"everynode.dev/everynode/localplane/internal/proc"
)

const testPort = "8080"

// serveIn starts a server in a process's namespaces.
func (p *plane) serveIn(inside int, address string) *proc.Process {
	p.t.Helper()
	// Not in /run or /var/lib, so it is the same file inside and outside.
	ready := p.path("serve-" + strconv.Itoa(inside))
	server := p.start(proc.Command{Inside: inside}, "serve", net.JoinHostPort(address, testPort), ready)
	p.await(server, "a server at "+address, func() bool { return exists(ready) })
	return server
}

func (p *plane) ask(inside int, address string) (string, error) {
	return p.dial(inside, net.JoinHostPort(address, testPort))
}

func TestNodesTalkUntilTheyAreCutOrLosePower(t *testing.T) {
	before := lookAtMachine(t)
	p := newPlane(t)
	one, two := p.startNode(1), p.startNode(2)
	gateway := p.serveIn(p.network.PID, GatewayAddress)
	server := p.serveIn(two.PID, Address(2))

	if got, err := p.ask(one.PID, Address(2)); err != nil || got != Name(2) {
		t.Fatalf("%s asks %s: %q, %v", Name(1), Name(2), got, err)
	}
	if got, err := p.ask(one.PID, GatewayAddress); err != nil || got != strings.TrimSpace(before.hostname) {
		t.Fatalf("%s asks the gateway: %q, %v", Name(1), got, err)
	}
	if _, err := p.ask(0, Address(2)); err == nil {
		t.Error("a node can be reached from the machine's own network")
	}

	p.expectLink(2, true)
	if err := p.links().Set(2, false); err != nil {
		t.Fatal(err)
	}
	p.expectLink(2, false)
	if got, err := p.ask(one.PID, Address(2)); err == nil {
		t.Errorf("%s was reached (%q) although it is cut off", Name(2), got)
	}
	if got, err := p.ask(two.PID, GatewayAddress); err == nil {
		t.Errorf("%s reached the gateway (%q) although it is cut off", Name(2), got)
	}
	if got, err := p.ask(two.PID, Address(2)); err != nil || got != Name(2) {
		t.Errorf("%s, cut off, does not reach itself: %q, %v", Name(2), got, err)
	}
	if err := p.links().Plug(two.PID, 2); err != nil {
		t.Fatal(err)
	}
	p.expectLink(2, false) // plugging again heals nothing
	if err := p.links().Set(2, true); err != nil {
		t.Fatal(err)
	}
	p.expectLink(2, true)
	p.await(server, Name(2)+" to be reached after the cut", func() bool {
		got, err := p.ask(one.PID, Address(2))
		return err == nil && got == Name(2)
	})

	if err := two.Kill(); err != nil {
		t.Fatal(err)
	}
	p.await(nil, "the server's end", server.Ended)
	p.await(nil, "the end of the link", func() bool {
		_, err := p.links().Up(2)
		return IsUnplugged(err)
	})
	two = p.startNode(2)
	p.serveIn(two.PID, Address(2))
	if got, err := p.ask(one.PID, Address(2)); err != nil || got != Name(2) {
		t.Errorf("%s, on again: %q, %v", Name(2), got, err)
	}
	if gateway.Ended() {
		t.Error("the gateway ended with a node")
	}
	before.expectSame(t)
}

func (p *plane) expectLink(n int, want bool) {
	p.t.Helper()
	if up, err := p.links().Up(n); err != nil || up != want {
		p.t.Errorf("the link of %s: up %v (%v), want %v", Name(n), up, err, want)
	}
}

func TestPlugReplacesWhatAnEarlierNodeLeft(t *testing.T) {
	p := newPlane(t)
	one, two := p.startNode(1), p.startNode(2)
	// Node 2 takes the number of node 1, whose end of the link is still there.
	if err := p.links().Plug(two.PID, 1); err != nil {
		t.Fatal(err)
	}
	p.serveIn(two.PID, Address(1))
	if got, err := p.ask(p.network.PID, Address(1)); err != nil || got != Name(2) {
		t.Errorf("the node that took over: %q, %v", got, err)
	}
	if _, err := p.ask(one.PID, GatewayAddress); err == nil {
		t.Error("the node whose link was taken still has one")
	}
}

func TestPodsOfNodesReachEachOther(t *testing.T) {
	p := newPlane(t)
	for _, n := range []int{1, 2} {
		// An address of the pods' range on lo stands for a pod behind the CNI bridge.
		node, err := openNetwork(p.startNode(n).PID)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(node.close)
		addAddress(t, node, podAddress(n))
		p.serveIn(p.nodes[n].PID, podAddress(n))
	}
	for from, to := range map[int]int{p.nodes[1].PID: 2, p.nodes[2].PID: 1, p.network.PID: 2} {
		if got, err := p.ask(from, podAddress(to)); err != nil || got != Name(to) {
			t.Errorf("from process %d to a pod of %s: %q, %v", from, Name(to), got, err)
		}
	}
}

func podAddress(n int) string { return fmt.Sprintf("10.78.%d.7", n) }

func TestNodeHasFileSystemsOfItsOwn(t *testing.T) {
	before := lookAtMachine(t)
	p := newPlane(t)
	node := p.startNode(3)

	if got := p.shell(3, "cat /proc/1/comm; cat /proc/sys/kernel/hostname; cat /proc/sys/net/ipv4/ip_forward"); !strings.HasSuffix(got, Name(3)+"\n1") {
		t.Errorf("the node's /proc: %q", got)
	}
	for _, name := range kubeletSysctls() {
		value, masked := masks()[name]
		if !exists("/proc/sys/" + name) {
			continue
		}
		if !masked {
			t.Errorf("the kubelet would change %s of the machine", name)
			continue
		}
		if got := p.shell(3, "cat /proc/sys/"+name+"; echo 77 > /proc/sys/"+name+"; cat /proc/sys/"+name); got != value+"\n77" {
			t.Errorf("%s in the node: %q, want %s and then 77", name, got, value)
		}
	}
	if got := p.shell(3, "cd /run; echo *; cd /var/lib; echo *"); got != "localplane\ncni containerd everynode-agent kubelet" {
		t.Errorf("/run and /var/lib of the node: %q", got)
	}
	if mounts := p.shell(3, "grep -v shared: /proc/self/mountinfo || true"); mounts != "" {
		t.Errorf("mounts of the node that are not shared within it:\n%s", mounts)
	}
	script := ""
	for _, m := range diskMounts() {
		if exists(m.target) || hidden(m.target) {
			script += "echo " + m.disk + " > " + m.target + "/kept; "
		}
	}
	p.shell(3, script+"mkdir /run/x; mount -t tmpfs x /run/x; echo lost > /run/x/lost")
	before.expectSame(t)

	if err := node.Kill(); err != nil {
		t.Fatal(err)
	}
	p.startNode(3)
	for _, m := range diskMounts() {
		if m.optional && !exists(m.target) {
			continue
		}
		if got := p.shell(3, "cat "+m.target+"/kept"); got != m.disk {
			t.Errorf("%s after a loss of power: %q, want %q", m.target, got, m.disk)
		}
		if raw, err := os.ReadFile(filepath.Join(p.path(Name(3)), m.disk, "kept")); err != nil || string(raw) != m.disk+"\n" {
			t.Errorf("the disk's %s: %q, %v", m.disk, raw, err)
		}
		if exists(m.target + "/kept") {
			t.Errorf("%s/kept is on the machine", m.target)
		}
	}
	if got := p.shell(3, "ls /run; cat /proc/sys/kernel/panic"); got != "localplane\n10" {
		t.Errorf("/run and a mask after a loss of power: %q", got)
	}
}

// TestMountsStayInTheNode starts a node on a machine that hands mounts on to whoever shares them, as most do.
func TestMountsStayInTheNode(t *testing.T) {
	p := newPlane(t)
	shared := p.path("shared")
	holder, err := p.spawner.Start(proc.Command{
		Path: "/bin/sh", Args: []string{"-ec", "mount --make-rshared /; : > " + shared + "; exec sleep 60"}, Unshare: unix.CLONE_NEWNS, Output: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Kill() })
	p.await(holder, "shared mounts", func() bool { return exists(shared) })
	mounts := func() string {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", holder.PID))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	before := mounts()
	ready := p.path("ready")
	node := p.start(proc.Command{Unshare: NodeNamespaces, Inside: holder.PID}, "node", Name(1), p.path("disk"), ready)
	p.await(node, "the node", func() bool { return exists(ready) })
	if now := mounts(); now != before {
		t.Errorf("the node's mounts are seen outside:\n%s\nbefore:\n%s", now, before)
	}
}

// TestDiskBelowWhatTheNodeCovers has the plane's home in a directory of which the node has one of its own.
func TestDiskBelowWhatTheNodeCovers(t *testing.T) {
	t.Setenv("TMPDIR", runDir)
	p := newPlane(t)
	p.startNode(6)
	root := p.path(Name(6))
	if got := p.shell(6, "echo kept > /var/lib/kubelet/file; cat "+root+"/kubelet/file; ls /run"); !strings.HasPrefix(got, "kept\n") || strings.Count(got, "\n") != 2 {
		t.Errorf("the disk in the node: %q", got)
	}
	if raw, err := os.ReadFile(root + "/kubelet/file"); err != nil || string(raw) != "kept\n" {
		t.Errorf("the disk outside: %q, %v", raw, err)
	}
}

func TestWhatIsKeptIsSeenInTheNode(t *testing.T) {
	p := newPlane(t)
	disk, ready := p.path("disk"), p.path("ready")
	kept := filepath.Join(runDir, fmt.Sprintf("localplane-test-%d", os.Getpid()))
	if err := os.Mkdir(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(kept) })
	program := writeProgram(t, kept, "program", "it runs")
	node := p.start(proc.Command{Unshare: NodeNamespaces}, "node", Name(1), disk, ready, kept, "/usr")
	p.await(node, Name(1), func() bool { return exists(ready) })
	if out, err := p.run(node.PID, "/bin/sh", "-c", program); err != nil || out != "it runs" {
		t.Errorf("a program in %s: %q, %v", kept, out, err)
	}
}

func TestFirstProcessReapsAndEndsOnRequest(t *testing.T) {
	p := newPlane(t)
	node := p.startNode(4)
	children := func() []string {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", node.PID, node.PID))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(raw))
	}
	p.shell(4, "sleep 60 >/dev/null 2>&1 & sleep 60 >/dev/null 2>&1 &")
	p.await(node, "orphans", func() bool { return len(children()) == 2 })
	for _, child := range children() {
		pid, err := strconv.Atoi(child)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	// A zombie that nobody buries stays a child.
	p.await(node, "orphans to be buried", func() bool { return len(children()) == 0 })
	if err := node.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.await(nil, "the node's end", node.Ended)
	if got := node.ExitReason(); got != "exit status 0" {
		t.Errorf("asked to end, the node ended with %q", got)
	}
}

func TestNothingIsLeftOfAPlaneThatIsKilled(t *testing.T) {
	needMachines(t)
	before := lookAtMachine(t)
	supervisor := exec.Command(os.Args[0], t.TempDir())
	supervisor.Env, supervisor.Stderr = append(os.Environ(), roleVariable+"=supervisor"), os.Stderr
	out, err := supervisor.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Start(); err != nil {
		t.Fatal(err)
	}
	var pids [3]int
	_, scanErr := fmt.Fscan(out, &pids[0], &pids[1], &pids[2])
	var processes []proc.Identity
	for _, pid := range pids {
		id, err := proc.Identify(pid)
		if err != nil || !id.Alive() {
			t.Errorf("process %d does not run while its supervisor does: %v", pid, err)
		}
		processes = append(processes, id)
	}
	if err := supervisor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = supervisor.Wait()
	if scanErr != nil {
		t.Fatal(scanErr)
	}
	p := &plane{t: t}
	for _, id := range processes {
		p.await(nil, fmt.Sprintf("the end of process %d", id.PID), func() bool { return !id.Alive() })
	}
	before.expectSame(t)
}

func TestComponentsRefuseTheMachineItself(t *testing.T) {
	before := lookAtMachine(t)
	dir := t.TempDir()
	// Not RunNetwork itself: this test must not be what changes the machine on the day that it fails.
	err := refuseOwnerOf("net")
	if err == nil || !strings.Contains(err.Error(), "localplane up") {
		t.Errorf("the network in the machine's own namespace: %v", err)
	}
	err = RunInit(t.Context(), InitOptions{Name: Name(1), Root: dir, ReadyFile: filepath.Join(dir, "ready")})
	if err == nil || !strings.Contains(err.Error(), "localplane up") {
		t.Errorf("a node that is not the first process: %v", err)
	}
	before.expectSame(t)
}

func TestLinksOfNodesThatDoNotRun(t *testing.T) {
	p := newPlane(t)
	for _, n := range []int{0, -1, Max + 1} {
		if err := p.links().Plug(os.Getpid(), n); err == nil || !strings.Contains(err.Error(), "counted from 1") {
			t.Errorf("plugging node %d: %v", n, err)
		}
	}
	if err := p.links().Set(5, false); err == nil || !strings.Contains(err.Error(), "real-5") {
		t.Errorf("cutting a node that does not run: %v", err)
	}
}

func addAddress(t *testing.T, in *namespace, ip string) {
	t.Helper()
	link, err := in.LinkByName(loopback)
	if err != nil {
		t.Fatal(err)
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(ip).To4(), Mask: net.CIDRMask(addressBits, addressBits)}}
	if err := in.AddrAdd(link, addr); err != nil {
		t.Fatal(err)
	}
}
