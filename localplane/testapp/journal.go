// SPDX-License-Identifier: Apache-2.0

package testapp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Kinds of events.
const (
	Started    = "start"
	Stopped    = "stop"
	Overlapped = "overlap" // another run held the lock
)

// Event is one line of a journal.
type Event struct {
	Event   string    `json:"event"`
	Time    time.Time `json:"time"`
	Version string    `json:"version"`
	// Pod is the UID of the pod.
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	Name      string `json:"name,omitempty"`
	Node      string `json:"node,omitempty"`
}

// ReadJournal parses a journal.
func ReadJournal(raw []byte) ([]Event, error) {
	var events []Event
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		var event Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("reading line %d of a journal: %w", len(events)+1, err)
		}
		events = append(events, event)
	}
	return events, nil
}

// note appends an event to the journal, if there is one. Each line is one write, so that lines of several runs do not
// mix.
func (s settings) note(kind string) error {
	if s.journal == "" {
		return nil
	}
	line, err := json.Marshal(Event{
		Event: kind, Time: time.Now(), Version: s.version, Pod: s.podUID, Container: s.container, Name: s.pod, Node: s.node,
	})
	if err != nil {
		return fmt.Errorf("writing a line of the journal: %w", err)
	}
	const mode = 0o644
	file, err := os.OpenFile(s.journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	_, err = file.Write(append(line, '\n'))
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing a line of the journal: %w", err)
	}
	return nil
}

// hold locks the lock file, if there is one, and returns a function to release it. If another run holds the lock, it
// writes that to the journal, and continues.
func (s settings) hold() (release func(), err error) {
	if s.lock == "" {
		return func() {}, nil
	}
	const mode = 0o644
	file, err := os.OpenFile(s.lock, os.O_CREATE|os.O_RDWR, mode)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	release = func() { _ = file.Close() } // nothing was written, and the lock ends with the process
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = s.note(Overlapped)
	}
	if err != nil {
		release()
		return nil, fmt.Errorf("taking the lock: %w", err)
	}
	return release, nil
}
