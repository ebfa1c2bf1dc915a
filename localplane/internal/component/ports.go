// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports beside those that are called like their component.
const (
	PortEtcdPeer = "etcd-peer"
	portHealth   = "-health"
	portMetrics  = "-metrics"
	portWebhook  = "-webhook"
)

// Ports are chosen from below the range that the kernel takes for outgoing connections, so that no connection of some
// other program sits on one between its choice and its use.
const (
	firstPort = 20000
	lastPort  = 32000
)

// PortNames lists what a plane needs a port for.
func PortNames(in Inputs) []string {
	names := []string{Etcd, PortEtcdPeer, APIServer, ControllerManager, Scheduler}
	if in.NativeController {
		names = append(names, NativeController)
	}
	if in.Real.Count > 0 {
		names = append(names, Registry)
	}
	for i := range in.Managers.Count {
		names = append(names, ManagerName(i)+portHealth, ManagerName(i)+portMetrics, ManagerName(i)+portWebhook)
	}
	return names
}

// ChoosePorts finds a free port for each name: that of the last run when it is still free, else any.
func ChoosePorts(names []string, last map[string]int) (map[string]int, error) {
	chosen, taken := map[string]int{}, map[int]bool{}
	for _, name := range names {
		if port := last[name]; port != 0 && !taken[port] && PortFree(port) {
			chosen[name], taken[port] = port, true
		}
	}
	for _, name := range names {
		if chosen[name] != 0 {
			continue
		}
		port, err := anyPort(taken)
		if err != nil {
			return nil, fmt.Errorf("finding a port for %s: %w", name, err)
		}
		chosen[name], taken[port] = port, true
	}
	return chosen, nil
}

// PortFree tells whether the port can be listened on.
func PortFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(Loopback, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func anyPort(taken map[int]bool) (int, error) {
	const tries = 1000
	for range tries {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if !taken[port] && PortFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("%d ports between %d and %d were all in use on %s: stop what listens there", tries, firstPort, lastPort, Loopback)
}

// MetricsPort is the name of the port on which a manager serves its metrics.
func MetricsPort(manager string) string { return manager + portMetrics }
