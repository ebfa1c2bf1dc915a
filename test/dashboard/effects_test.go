// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// TestWhatARestartDoesToNodes: a dialog does not promise a new pod to nodes that the partition or the pause holds.
func TestWhatARestartDoesToNodes(t *testing.T) {
	for says, rolling := range map[string]map[string]any{
		"3 nodes get a new pod, at most 2 nodes at a time.":                                                                   {"maxUnavailable": int64(2)},
		"Some or none of 3 nodes, because the pause and the partition hold others, get a new pod, at most 2 nodes at a time.": {"maxUnavailable": int64(2), "paused": true, "partition": int64(2)},
	} {
		b := browse(t)
		strategy := map[string]any{"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": rolling}}
		cluster := fakecluster.New(t, fakecluster.Roll{Name: set, Advanced: true, Letters: "uuu", Spec: strategy}.Objects(t)...)
		address := served(t, cluster)
		restart := chrome.Named(".actions > button", "restart")
		b.Does(says, firstSet(address), chrome.Until(chrome.Find(".foresight summary")), chrome.Until(restart+" && !"+restart+".disabled"),
			chrome.Until(chrome.Count(".foresight input")+" > 1"), chrome.Press(restart), chrome.Until(`document.querySelector("[data-effect]")?.innerText === "`+says+`"`))
		b.Quiet()
	}
}
