// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
)

// NetworkOptions are the flags of the component that holds the network.
type NetworkOptions struct {
	// ReadyFile is written when the network is ready.
	ReadyFile string
}

// RunNetwork creates the network in the network namespace of this process, which must be new, and holds it until ctx
// ends.
func RunNetwork(ctx context.Context, o NetworkOptions) error {
	if err := refuseOwnerOf("net"); err != nil {
		return err
	}
	if err := makeNetwork(); err != nil {
		return err
	}
	if err := os.WriteFile(o.ReadyFile, nil, 0o600); err != nil {
		return fmt.Errorf("saying that the network is ready: %w", err)
	}
	<-ctx.Done()
	return nil
}

// refuseOwnerOf fails if this process shares a namespace with its parent: then it would change the machine.
func refuseOwnerOf(kind string) error {
	own, err := os.Stat("/proc/thread-self/ns/" + kind)
	if err != nil {
		return fmt.Errorf("looking at the own %s namespace: %w", kind, err)
	}
	parent, err := os.Stat(fmt.Sprintf("/proc/%d/ns/%s", os.Getppid(), kind))
	if err != nil {
		return fmt.Errorf("looking at the %s namespace of the process that started this one: %w", kind, err)
	}
	if os.SameFile(own, parent) {
		return fmt.Errorf("this component changes its %s namespace and was started without a new one; only localplane up starts it", kind)
	}
	return nil
}

func makeNetwork() error {
	if err := linkUp(loopback); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = Bridge
	// A fixed address: otherwise the bridge uses the lowest address of its ports, which changes when nodes start or
	// stop.
	attrs.HardwareAddr = hardwareAddress(net.ParseIP(GatewayAddress))
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("adding the bridge %s: %w", Bridge, err)
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(GatewayAddress).To4(), Mask: net.CIDRMask(nodeBits, addressBits)}}
	if err := netlink.AddrAdd(bridge, addr); err != nil {
		return fmt.Errorf("giving the bridge %s the address %s: %w", Bridge, GatewayAddress, err)
	}
	// Nodes reach the pods of other nodes through the bridge's address. Redirects to the shorter route are disabled.
	err := errors.Join(
		setNetwork("conf/all/send_redirects", "0"),
		setNetwork("conf/"+Bridge+"/send_redirects", "0"),
		setNetwork("ip_forward", "1"),
	)
	if err != nil {
		return err
	}
	return linkUp(Bridge)
}

// setNetwork sets an IPv4 setting in the network namespace of this process.
func setNetwork(name, value string) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0o600); err != nil {
		return fmt.Errorf("setting net/ipv4/%s to %s: %w", name, value, err)
	}
	return nil
}

func linkUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("looking up the interface %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting the interface %s up: %w", name, err)
	}
	return nil
}
