// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// mostConnections is the maximum number of connections: each needs memory before anyone has signed in on it. Half of them may be of one address.
const mostConnections = 1000

// connections accepts connections while there are few enough. Otherwise the oldest one ends that has no request, if there is any: of the address that has its share, or of the one with
// the most. So a client that opens many does not keep other addresses away, such as the kubelet, which restarts the pod if its probes are not answered.
type connections struct {
	net.Listener
	most, mostOfClient int

	mu sync.Mutex
	// all are those of each address, in the order in which they began to rest.
	all   map[string][]*connection
	count int
}

// connection is a connection of an address. rests reports whether it has no request.
type connection struct {
	net.Conn
	of     *connections
	client string
	rests  bool
}

func newConnections(listener net.Listener, most int) *connections {
	return &connections{Listener: listener, most: most, mostOfClient: max(most/2, 1), all: map[string][]*connection{}}
}

// Accept waits for the next connection.
func (l *connections) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // the server expects the error of a listener
		}
		c := &connection{Conn: accepted, of: l, client: addressOf(accepted.RemoteAddr().String()), rests: true}
		victim, ok := l.add(c)
		if victim != nil {
			_ = victim.Conn.Close() // its server notices that
		}
		if ok {
			return c, nil
		}
		_ = accepted.Close()
	}
}

// add adds a connection, in place of victim if that is not nil; ok is false if there is no room.
func (l *connections) add(c *connection) (victim *connection, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all[c.client]) >= l.mostOfClient || l.count >= l.most {
		if victim = l.resting(c.client); victim == nil {
			return nil, false
		}
		l.remove(victim)
	}
	l.all[c.client] = append(l.all[c.client], c)
	l.count++
	return victim, true
}

// resting is the connection that ends for another one of a client; nil if there is none. l.mu must be held.
func (l *connections) resting(client string) (victim *connection) {
	if len(l.all[client]) >= l.mostOfClient {
		return firstResting(l.all[client])
	}
	most := 0
	for _, own := range l.all {
		if c := firstResting(own); c != nil && len(own) > most {
			victim, most = c, len(own)
		}
	}
	return victim
}

func firstResting(all []*connection) *connection {
	for _, c := range all {
		if c.rests {
			return c
		}
	}
	return nil
}

// remove removes a connection, unless that was done before. l.mu must be held.
func (l *connections) remove(c *connection) (was bool) {
	own := l.all[c.client]
	for i := range own {
		if own[i] != c {
			continue
		}
		if l.count--; len(own) == 1 {
			delete(l.all, c.client)
		} else {
			l.all[c.client] = append(own[:i:i], own[i+1:]...)
		}
		return true
	}
	return false
}

// Close closes a connection.
func (c *connection) Close() error {
	c.of.mu.Lock()
	c.of.remove(c)
	c.of.mu.Unlock()
	return c.Conn.Close() //nolint:wrapcheck // the server expects the error of a connection
}

// note is for http.Server.ConnState.
func (l *connections) note(conn net.Conn, state http.ConnState) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, ok := conn.(*connection)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	rested := c.rests
	c.rests = state == http.StateNew || state == http.StateIdle
	if c.rests && !rested && l.remove(c) { // it is the last one that ends
		l.all[c.client] = append(l.all[c.client], c)
		l.count++
	}
}
