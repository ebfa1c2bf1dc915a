// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

const (
	// Bridge is the bridge between the nodes, in the namespace of the network.
	Bridge = "plane0"
	// GatewayAddress is the address of the bridge: the default route of the nodes, and the address of API server and
	// registry for nodes.
	GatewayAddress = "10.77.0.1"
	// RegistryPort is the registry's port at GatewayAddress.
	RegistryPort = 5000
	// RegistryHost is the name of the registry in image references.
	RegistryHost = "registry.local"
	// RegistryUser is the user for pushes to the registry.
	RegistryUser = "localplane"
	// NodeRange contains the addresses of all nodes, and GatewayAddress.
	NodeRange = "10.77.0.0/24"
	// PodRange contains the pod addresses of all nodes.
	PodRange = "10.78.0.0/16"
	// Max is the maximum number of real nodes.
	Max = 100

	namePrefix = "real-"
	// nodeLink is the node's end of its link, loopback its other interface.
	nodeLink = "eth0"
	loopback = "lo"
	// firstAddress is the last byte of the address before that of node 1.
	firstAddress = 10
	nodeBits     = 24
	addressBits  = 32
)

// Tag returns a tag for the image of a program; each program has another tag.
func Tag(program string) (string, error) {
	raw, err := os.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("choosing a tag for an image: %w", err)
	}
	sum := sha256.Sum256(raw)
	const enough = 6
	return hex.EncodeToString(sum[:enough]), nil
}

// Name returns the name of real node n, counted from 1: as a node of the cluster, as a host, and of its link.
func Name(n int) string { return namePrefix + strconv.Itoa(n) }

// Number is the inverse of Name; ok is false if it is not the name of a real node.
func Number(name string) (int, bool) {
	digits, found := strings.CutPrefix(name, namePrefix)
	n, err := strconv.Atoi(digits)
	if !found || err != nil || n < 1 || n > Max || Name(n) != name {
		return 0, false
	}
	return n, true
}

// Address returns the address of node n.
func Address(n int) string { return address(n).String() }

// PodCIDR returns the range of the pod addresses of node n.
func PodCIDR(n int) string { return podNet(n).String() }

func address(n int) net.IP { return net.IPv4(10, 77, 0, byte(firstAddress+n)).To4() }

func podNet(n int) *net.IPNet {
	return &net.IPNet{IP: net.IPv4(10, 78, byte(n), 0).To4(), Mask: net.CIDRMask(nodeBits, addressBits)}
}

// hardwareAddress is derived from an IP address, so that neighbours know a restarted node immediately.
func hardwareAddress(ip net.IP) net.HardwareAddr {
	return append(net.HardwareAddr{0x02, 0x00}, ip.To4()...)
}

func checkNumber(n int) error {
	if n < 1 || n > Max {
		return fmt.Errorf("there is no real node %d: they are counted from 1 to %d", n, Max)
	}
	return nil
}
