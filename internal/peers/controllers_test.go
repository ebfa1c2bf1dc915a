// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"strings"
	"testing"

	"everynode.dev/everynode/internal/dialects"
)

// TestOff: one that is read as off although it is on makes two controllers fight, so every doubt is on.
func TestOff(t *testing.T) {
	for line, want := range map[string]bool{
		"":                                  false,
		"--v=4":                             false,
		"--controllers=*":                   false,
		"--controllers=nodepool":            false, // off as well, but nobody has said so
		"--controllers=*,-nodelifecycle":    false,
		"--controllers=-daemonpodupdater,*": true,
		"--controllers *,-daemonpodupdater": true,
		"--controllers=*,-daemon-pod-updater-controller":                 true,
		"--controllers=* --controllers=-daemonpodupdater":                true,
		"--controllers=daemonpodupdater,-daemon-pod-updater-controller":  false,
		"--controllers=-daemonpodupdater,daemon-pod-updater-controller":  true,
		"--controllers=$(CONTROLLERS)":                                   false,
		"--controllers":                                                  false,
		"--controllers=\"*,-daemonpodupdater\"":                          false, // whoever quotes within a manifest
		"--disable-independent-webhooks=-daemonpodupdater":               false,
		"yurt-manager --working-namespace kube-system --controllers=*,-": false,
	} {
		if got := Off(Controllers(strings.Fields(line)), dialects.PeerOf(dialects.OpenYurt).Controller); got != want {
			t.Errorf("%q: off is %v, want %v", line, got, want)
		}
	}
}
