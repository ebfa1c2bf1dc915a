// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// item is one thing of a picture: a row, a cell or a part, as JSON.
type item struct {
	key  string
	data json.RawMessage
}

// frame is a picture at one moment. It does not change.
type frame struct {
	// parts are few and fixed, such as the head of a page. items are sorted by their keys.
	parts, items []item
}

// add encodes a part.
func (f *frame) add(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	f.parts = append(f.parts, item{name, data})
	return nil
}

// put encodes an item.
func (f *frame) put(key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", key, err)
	}
	f.items = append(f.items, item{key, data})
	return nil
}

// sort sorts the items.
func (f *frame) sort() {
	slices.SortFunc(f.items, func(a, b item) int { return strings.Compare(a.key, b.key) })
}

// message is a message to a viewer: everything, or the differences from the last message.
type message struct {
	Full  bool                       `json:"full,omitempty"`
	Parts map[string]json.RawMessage `json:"parts,omitempty"`
	Items []json.RawMessage          `json:"items,omitempty"`
	Gone  []string                   `json:"gone,omitempty"`
}

func (m *message) empty() bool { return !m.Full && len(m.Parts)+len(m.Items)+len(m.Gone) == 0 }

// since returns what has changed since a frame; everything if that is nil, or has a part that is gone.
func (f *frame) since(last *frame) message {
	if last != nil && slices.ContainsFunc(last.parts, func(p item) bool { return !f.has(p.key) }) {
		last = nil
	}
	m := message{Full: last == nil, Parts: map[string]json.RawMessage{}}
	if last == nil {
		last = &frame{}
	}
	before := map[string]json.RawMessage{}
	for _, p := range last.parts {
		before[p.key] = p.data
	}
	for _, p := range f.parts {
		if !bytes.Equal(before[p.key], p.data) {
			m.Parts[p.key] = p.data
		}
	}
	old := last.items
	for _, now := range f.items {
		for len(old) > 0 && old[0].key < now.key {
			m.Gone, old = append(m.Gone, old[0].key), old[1:]
		}
		if len(old) > 0 && old[0].key == now.key {
			if !bytes.Equal(old[0].data, now.data) {
				m.Items = append(m.Items, now.data)
			}
			old = old[1:]
			continue
		}
		m.Items = append(m.Items, now.data)
	}
	for _, o := range old {
		m.Gone = append(m.Gone, o.key)
	}
	return m
}

// has reports whether a frame has a part.
func (f *frame) has(part string) bool {
	return slices.ContainsFunc(f.parts, func(p item) bool { return p.key == part })
}

const (
	// silence is the maximum time without a line to a viewer, so that a broken connection is detected.
	silence = 15 * time.Second
	// writePatience is how long a viewer may take to accept a message.
	writePatience = 10 * time.Second
)

// follow sends a viewer server-sent events until it leaves, is too slow, or the program ends. It keeps only
// the last frame that the viewer got: if the viewer reads slowly, frames are skipped.
func (h *hub) follow(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no")
	var last *frame
	for {
		current, next := h.look()
		text := ": still here\n\n"
		if current != nil {
			if m := current.since(last); !m.empty() {
				data, err := json.Marshal(m)
				if err != nil {
					return // json has encoded its parts before
				}
				text = "data: " + string(data) + "\n\n"
			}
			last = current
		}
		// A server that cannot set a deadline has none.
		_ = out.SetWriteDeadline(time.Now().Add(writePatience))
		if _, err := w.Write([]byte(text)); err != nil || out.Flush() != nil {
			return
		}
		_ = out.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream when its deadline passes, also while nothing is written
		quiet := time.NewTimer(silence)
		select {
		case <-r.Context().Done():
			quiet.Stop()
			return
		case <-h.ended():
			quiet.Stop()
			return
		case <-next:
			quiet.Stop()
		case <-quiet.C:
		}
	}
}
