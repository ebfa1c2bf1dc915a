// SPDX-License-Identifier: Apache-2.0

package component

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports in addition to those with the name of their component.
const (
	PortEtcdPeer = "etcd-peer"
	portHealth   = "-health"
	portMetrics  = "-metrics"
	portWebhook  = "-webhook"
)

// Ports are below the range of the kernel for outgoing connections, so that no such connection uses a port between its
// choice and its use.
const (
	firstPort = 20000
	lastPort  = 32000
)

// PortNames returns the purposes for which a plane needs a port.
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

// Reservation reserves ports for one plane, also before its components listen and while one of them is down, so that
// other planes do not use them. (At these times, a test whether a port is free would not detect such a reservation.) It is an abstract socket of
// the network namespace, which ends with its process.
type Reservation struct{ held []net.Listener }

// Release releases all ports.
func (r *Reservation) Release() error {
	var errs []error
	for _, l := range r.held {
		errs = append(errs, l.Close())
	}
	r.held = nil
	return errors.Join(errs...)
}

// take reserves a port on which no process listens.
func (r *Reservation) take(port int) bool {
	held, err := net.Listen("unix", fmt.Sprintf("@everynode-localplane-port-%d", port))
	if err != nil {
		return false
	}
	l, err := net.Listen("tcp", net.JoinHostPort(Loopback, strconv.Itoa(port)))
	if err != nil || l.Close() != nil {
		_ = held.Close() // it was taken at the same moment
		return false
	}
	r.held = append(r.held, held)
	return true
}

// ChoosePorts reserves a free port for each name: that of the last run if it is still free, otherwise any.
func ChoosePorts(names []string, last map[string]int) (map[string]int, *Reservation, error) {
	chosen, reserved := map[string]int{}, &Reservation{}
	for _, name := range names {
		if port := last[name]; port != 0 && reserved.take(port) {
			chosen[name] = port
		}
	}
	for _, name := range names {
		if chosen[name] != 0 {
			continue
		}
		port, err := reserved.any()
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("finding a port for %s: %w", name, err), reserved.Release())
		}
		chosen[name] = port
	}
	return chosen, reserved, nil
}

func (r *Reservation) any() (int, error) {
	const tries = 1000
	for range tries {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if r.take(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("%d ports between %d and %d were all in use on %s, or belong to other planes: stop what listens there", tries, firstPort, lastPort, Loopback)
}

// MetricsPort returns the name of the metrics port of a manager.
func MetricsPort(manager string) string { return manager + portMetrics }
