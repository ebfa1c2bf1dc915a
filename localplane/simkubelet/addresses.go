// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
)

// addresses assigns an address to each pod.
type addresses struct {
	mu     sync.Mutex
	prefix netip.Prefix
	next   uint32
	used   map[string]bool
}

func newAddresses(prefix netip.Prefix) *addresses {
	return &addresses{prefix: prefix.Masked(), next: 1, used: map[string]bool{}}
}

// claim reserves an address that a pod already has.
func (a *addresses) claim(ip string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ip != "" {
		a.used[ip] = true
	}
}

// take assigns an address; the longest unused one first.
func (a *addresses) take() (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// The first and the last address of a network are reserved.
	count := uint32(1)<<(32-a.prefix.Bits()) - 2
	for range count {
		n := a.next
		a.next = a.next%count + 1
		base := a.prefix.Addr().As4()
		var raw [4]byte
		binary.BigEndian.PutUint32(raw[:], binary.BigEndian.Uint32(base[:])+n)
		if ip := netip.AddrFrom4(raw).String(); !a.used[ip] {
			a.used[ip] = true
			return ip, nil
		}
	}
	return "", fmt.Errorf("all %d pod addresses of %s are taken", count, a.prefix)
}

// release releases an address.
func (a *addresses) release(ip string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.used, ip)
}
