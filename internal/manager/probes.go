// SPDX-License-Identifier: Apache-2.0

package manager

import "github.com/go-logr/logr"

// probesLogger is the name of the logger of the server of probes, which logs each one that fails, but not why: as long as the manager
// starts, that is no news, and later whatever keeps it from being ready logs that itself.
const probesLogger = "healthz"

// probesLevel is the level at which the server logs why, and from here on also that.
const probesLevel = 1

// quietProbes is a logger whose child for the probes is only heard from probesLevel.
func quietProbes(l logr.Logger) logr.Logger { return l.WithSink(probesSink{l.GetSink()}) }

// probesSink passes all on, but makes a quietSink for the logger of the probes.
type probesSink struct{ logr.LogSink }

// WithName implements logr.LogSink.
func (s probesSink) WithName(name string) logr.LogSink {
	named := s.LogSink.WithName(name)
	if name == probesLogger {
		return quietSink{named}
	}
	return probesSink{named}
}

// WithCallDepth implements logr.CallDepthLogSink, so that lines name the file that they come from.
func (s probesSink) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return probesSink{deep.WithCallDepth(depth)}
	}
	return s
}

// quietSink is one whose messages that are no errors are only heard from probesLevel.
type quietSink struct{ logr.LogSink }

// Enabled implements logr.LogSink.
func (s quietSink) Enabled(level int) bool { return s.LogSink.Enabled(max(level, probesLevel)) }

// Info implements logr.LogSink.
func (s quietSink) Info(level int, message string, keysAndValues ...any) {
	s.LogSink.Info(max(level, probesLevel), message, keysAndValues...)
}
