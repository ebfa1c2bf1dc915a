// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/features"
)

// TestNameOfTheGate: what people are told to set is the gate that there is.
func TestNameOfTheGate(t *testing.T) {
	if daemonset.PredownloadGate != string(features.PreDownloadImageForDaemonSetUpdate) {
		t.Errorf("people are told of the gate %s", daemonset.PredownloadGate)
	}
}

// TestNumbersBeforeTheWatches: what is not known is not counted, and not waited for.
func TestNumbersBeforeTheWatches(t *testing.T) {
	p := &pulls{}
	if n, known := p.numbers(); known {
		t.Errorf("counted %+v", n)
	}
	if err := p.catchUp(t.Context()); err != nil {
		t.Error(err)
	}
}
