// SPDX-License-Identifier: Apache-2.0

// Package proc starts, recognises and ends the processes of a plane.
//
// A pid alone does not name a process: the kernel gives numbers out again. An Identity (pid, start time and boot) does,
// and it is the only thing by which this package ever ends a process that it did not start itself.
//
// Every process gets a process group of its own, so that a Ctrl-C in the terminal reaches the supervisor alone and the
// supervisor can stop its components in the right order; and the kernel is told to end it when the supervisor dies, so
// that even a supervisor ended with SIGKILL leaves nothing behind.
package proc
