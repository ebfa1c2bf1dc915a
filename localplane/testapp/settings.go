// SPDX-License-Identifier: Apache-2.0

package testapp

import (
	"cmp"
	"strconv"
	"time"
)

// settings are the settings from the environment.
type settings struct {
	version, pod, podUID, node, container string

	port int
	// readyDelay is the time from the start until the application is ready.
	readyDelay time.Duration
	// stopDelay is the time from the signal to stop until it accepts no more requests.
	stopDelay time.Duration
	// journal and lock are files; empty means none.
	journal, lock string
	crash         bool
}

const defaultPort = "8080"

func readSettings(getenv func(string) string) (settings, error) {
	s := settings{
		version: getenv("VERSION"), pod: getenv("POD"), podUID: getenv("POD_UID"), node: getenv("NODE"), container: getenv("CONTAINER"),
		journal: getenv("JOURNAL"), lock: getenv("LOCK"),
	}
	var err error
	port := cmp.Or(getenv("PORT"), defaultPort)
	if s.port, err = strconv.Atoi(port); err != nil || s.port < 0 || s.port > 65535 {
		return s, usage("PORT is %q: set it to a port such as %s", port, defaultPort)
	}
	for name, delay := range map[string]*time.Duration{"READY_DELAY": &s.readyDelay, "STOP_DELAY": &s.stopDelay} {
		text := cmp.Or(getenv(name), "0s")
		if *delay, err = time.ParseDuration(text); err != nil || *delay < 0 {
			return s, usage("%s is %q: set it to a duration such as 10s", name, text)
		}
	}
	if text := cmp.Or(getenv("CRASH"), "false"); text != "false" {
		if s.crash, err = strconv.ParseBool(text); err != nil {
			return s, usage("CRASH is %q: set it to true or false", text)
		}
	}
	return s, nil
}
