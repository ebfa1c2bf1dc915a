// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Links connects nodes to the network.
type Links struct {
	// Network is the pid of the process that holds the network (RunNetwork).
	Network int
}

// Plug connects node n, whose first process is node, to the network: link, addresses and routes. An existing link is
// not changed, cut or not; a link of an earlier node with this number is replaced.
func (l Links) Plug(node, n int) error {
	if err := checkNumber(n); err != nil {
		return err
	}
	network, err := openNetwork(l.Network)
	if err != nil {
		return err
	}
	defer network.close()
	machine, err := openNetwork(node)
	if err != nil {
		return err
	}
	defer machine.close()
	joined, err := isJoined(network, machine, n)
	if err != nil {
		return fmt.Errorf("looking for the link of %s: %w", Name(n), err)
	}
	if !joined {
		if err := join(network, machine, n); err != nil {
			return fmt.Errorf("joining %s to the network: %w", Name(n), err)
		}
	}
	if err := setAddresses(machine, n); err != nil {
		return fmt.Errorf("setting the addresses of %s: %w", Name(n), err)
	}
	route := &netlink.Route{Dst: podNet(n), Gw: address(n)}
	if err := network.RouteReplace(route); err != nil {
		return fmt.Errorf("setting the route to the pods of %s: %w", Name(n), err)
	}
	return nil
}

// Set cuts the link of node n (up is false) or restores it.
func (l Links) Set(n int, up bool) error {
	network, link, err := l.open(n)
	if err != nil {
		return err
	}
	defer network.close()
	set, verb := network.LinkSetDown, "cutting"
	if up {
		set, verb = network.LinkSetUp, "healing"
	}
	if err := set(link); err != nil {
		return fmt.Errorf("%s the link of %s: %w", verb, Name(n), err)
	}
	return nil
}

// Up reports whether the link of node n is not cut. It returns an error for a node that does not run.
func (l Links) Up(n int) (bool, error) {
	network, link, err := l.open(n)
	if err != nil {
		return false, err
	}
	defer network.close()
	return link.Attrs().Flags&net.FlagUp != 0, nil
}

func (l Links) open(n int) (*namespace, netlink.Link, error) {
	if err := checkNumber(n); err != nil {
		return nil, nil, err
	}
	network, err := openNetwork(l.Network)
	if err != nil {
		return nil, nil, err
	}
	link, err := network.LinkByName(Name(n))
	if err != nil {
		network.close()
		return nil, nil, fmt.Errorf("looking up the link of %s, which must run: %w", Name(n), err)
	}
	return network, link, nil
}

// namespace is the network namespace of a process, with a netlink handle.
type namespace struct {
	*netlink.Handle
	file netns.NsHandle
}

func openNetwork(pid int) (*namespace, error) {
	file, err := netns.GetFromPid(pid)
	if err != nil {
		return nil, fmt.Errorf("opening the network namespace of process %d: %w", pid, err)
	}
	handle, err := netlink.NewHandleAt(file)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("opening netlink in the network namespace of process %d: %w", pid, err)
	}
	return &namespace{Handle: handle, file: file}, nil
}

func (n *namespace) close() {
	n.Handle.Close()
	_ = n.file.Close()
}

// isJoined reports whether the interfaces of the node and of the network are the ends of one link.
func isJoined(network, machine *namespace, n int) (bool, error) {
	there, err := network.LinkByName(Name(n))
	if IsUnplugged(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	here, err := machine.LinkByName(nodeLink)
	if IsUnplugged(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// Each end has the index of the other one.
	return there.Attrs().ParentIndex == here.Attrs().Index && here.Attrs().ParentIndex == there.Attrs().Index, nil
}

// IsUnplugged reports whether an error means that there is no link, or no bridge for it: one of the two is still
// starting.
func IsUnplugged(err error) bool {
	var missing netlink.LinkNotFoundError
	return errors.As(err, &missing)
}

// join creates the link and connects it to the bridge.
func join(network, machine *namespace, n int) error {
	for _, stale := range []struct {
		in   *namespace
		name string
	}{{network, Name(n)}, {machine, nodeLink}} {
		if err := stale.in.remove(stale.name); err != nil {
			return err
		}
	}
	bridge, err := network.LinkByName(Bridge)
	if err != nil {
		return fmt.Errorf("looking up the bridge %s: %w", Bridge, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = Name(n), bridge.Attrs().Index
	link := netlink.NewVeth(attrs)
	link.PeerName, link.PeerHardwareAddr, link.PeerNamespace = nodeLink, hardwareAddress(address(n)), netlink.NsFd(machine.file)
	if err := network.LinkAdd(link); err != nil {
		return fmt.Errorf("adding the link: %w", err)
	}
	return network.LinkSetUp(link)
}

// remove removes an interface. It is not an error if it does not exist.
func (n *namespace) remove(name string) error {
	link, err := n.LinkByName(name)
	if IsUnplugged(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := n.LinkDel(link); err != nil {
		if _, again := n.LinkByName(name); !IsUnplugged(again) {
			return fmt.Errorf("removing the interface %s: %w", name, err)
		}
	}
	return nil
}

func setAddresses(machine *namespace, n int) error {
	link, err := machine.LinkByName(nodeLink)
	if err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: address(n), Mask: net.CIDRMask(nodeBits, addressBits)}}
	if err := machine.AddrReplace(link, addr); err != nil {
		return err
	}
	if err := machine.LinkSetUp(link); err != nil {
		return err
	}
	return machine.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(GatewayAddress)})
}
