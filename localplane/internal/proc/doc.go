// SPDX-License-Identifier: Apache-2.0

// Package proc starts, identifies and ends the processes of a plane.
//
// A pid alone does not identify a process, because the kernel reuses pids. An Identity (pid, start time and boot) does,
// and this package uses only an Identity to end a process that it did not start.
//
// Every process has its own process group, so that a Ctrl-C in the terminal reaches only the supervisor, which stops
// its components in the right order. The kernel kills every process when the supervisor ends, so that even a supervisor
// that was ended with SIGKILL leaves no processes behind.
package proc
