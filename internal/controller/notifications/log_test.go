// SPDX-License-Identifier: Apache-2.0

package notifications

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// The log shows no address of a target, because the path of the address of a chat is its secret.
func TestTheLogHasNoAddress(t *testing.T) {
	down := receive(t, ok)
	down.Close()
	b := newBench(t, "", down.URL+"/services/T0/SECRET")
	log := &bytes.Buffer{}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log)))))
	ended := make(chan struct{})
	go func() { defer close(ended); b.Run(ctx) }()
	b.send(notice("canary"))
	b.untilCounted("a retried", 1)
	cancel()
	<-ended
	if text := log.String(); strings.Contains(text, "SECRET") || !strings.Contains(text, `target="a"`) || !strings.Contains(text, "connection refused") {
		t.Errorf("the log has %s", text)
	}
}
