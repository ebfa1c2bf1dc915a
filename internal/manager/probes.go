// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net/http"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// probed is a manager that logs when it stops being ready, with the cause. That it is not ready yet when it starts is no news.
type probed struct{ ctrl.Manager }

// AddReadyzCheck implements manager.Manager.
func (p probed) AddReadyzCheck(name string, check healthz.Checker) error {
	return p.Manager.AddReadyzCheck(name, told(check, func(r *http.Request, err error) {
		klog.FromContext(r.Context()).Error(err, "The manager is not ready any more", "check", name)
	}))
}

// told is a check that tells of a failure when it succeeded the last time.
func told(check healthz.Checker, tell func(*http.Request, error)) healthz.Checker {
	ready := &atomic.Bool{}
	return func(r *http.Request) error {
		err := check(r)
		if wasReady := ready.Swap(err == nil); wasReady && err != nil {
			tell(r, err)
		}
		return err
	}
}

// probesLogger is the name of the logger of the server of probes, which logs each one that fails, but not why.
const probesLogger = "healthz"

// probesLevel is the level at which it logs why, and from here on also that.
const probesLevel = 1

// quietProbes is a logger whose child for the probes is only heard from probesLevel.
func quietProbes(l logr.Logger) logr.Logger { return l.WithSink(probesSink{l.GetSink()}) }

// probesSink passes all on but to the logger of the probes.
type probesSink struct{ logr.LogSink }

// WithName implements logr.LogSink.
func (s probesSink) WithName(name string) logr.LogSink {
	named := s.LogSink.WithName(name)
	if name == probesLogger {
		return quietSink{named}
	}
	return probesSink{named}
}

// quietSink is one whose messages that are no errors are only heard from probesLevel.
type quietSink struct{ logr.LogSink }

// Enabled implements logr.LogSink.
func (s quietSink) Enabled(level int) bool { return s.LogSink.Enabled(max(level, probesLevel)) }

// Info implements logr.LogSink.
func (s quietSink) Info(level int, message string, keysAndValues ...any) {
	s.LogSink.Info(max(level, probesLevel), message, keysAndValues...)
}
