// SPDX-License-Identifier: Apache-2.0

package manager

import "github.com/go-logr/logr"

// probesLogger is the name of the logger of the probe server. It logs each failed probe, but not the cause. That is not
// useful: during the start, failures are expected, and later the cause is logged elsewhere.
const probesLogger = "healthz"

// probesLevel is the log level at which the server also logs the cause, and from which its messages are logged.
const probesLevel = 1

// quietProbes returns a logger whose child logger for probes logs only from probesLevel on.
func quietProbes(l logr.Logger) logr.Logger { return l.WithSink(probesSink{l.GetSink()}) }

// probesSink forwards all messages, but returns a quietSink for the logger of the probes.
type probesSink struct{ logr.LogSink }

// WithName implements logr.LogSink.
func (s probesSink) WithName(name string) logr.LogSink {
	named := s.LogSink.WithName(name)
	if name == probesLogger {
		return quietSink{named}
	}
	return probesSink{named}
}

// WithCallDepth implements logr.CallDepthLogSink, so that messages have the right source file.
func (s probesSink) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return probesSink{deep.WithCallDepth(depth)}
	}
	return s
}

// quietSink logs messages that are not errors only from probesLevel on.
type quietSink struct{ logr.LogSink }

// Enabled implements logr.LogSink.
func (s quietSink) Enabled(level int) bool { return s.LogSink.Enabled(max(level, probesLevel)) }

// Info implements logr.LogSink.
func (s quietSink) Info(level int, message string, keysAndValues ...any) {
	s.LogSink.Info(max(level, probesLevel), message, keysAndValues...)
}
