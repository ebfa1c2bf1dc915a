// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/policy"
)

// The log shows no address of a provider, because the path of an address may be a secret.
func TestTheLogHasNoAddress(t *testing.T) {
	for _, kind := range []string{"webhook", "prometheus"} {
		all, err := ParseProviders([]byte("apiVersion: config.everynode.dev/v1alpha1\nkind: AnalysisProviders\nproviders:\n- {name: main, " + kind + ": {url: \"http://127.0.0.1:1/T0/SECRET\"}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		log, r := &bytes.Buffer{}, New(all, clock.RealClock{})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log)))))
		ended, answered := make(chan struct{}), make(chan struct{}, 1)
		go func() { defer close(ended); r.Run(ctx) }()
		r.Ask(key("agent"), []policy.Question{{Provider: "main", Query: "up", Success: "result < 1", Interval: 1 << 40}}, func() { answered <- struct{}{} })
		<-answered
		cancel()
		<-ended
		if text := log.String(); strings.Contains(text, "SECRET") || !strings.Contains(text, `provider="main"`) || !strings.Contains(text, "connection refused") {
			t.Errorf("%s: the log has %s", kind, text)
		}
	}
}
