// SPDX-License-Identifier: Apache-2.0

package annotation_test

import (
	"slices"
	"strings"
	"testing"

	"everynode.dev/everynode/api/annotation"
	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/openyurt"
)

// Both the webhooks and the controllers read annotations by these values, so what one of them is cannot differ.
func TestValues(t *testing.T) {
	yes := map[string][]string{
		kruise.ProgressiveCreate:           {"true", "false"},
		kruise.PredownloadParallelism:      {"1", "+5", "2147483647"},
		kruise.PredownloadTimeout:          {"1", "007"},
		kruise.PredownloadMinUpdatedReady:  {"0", "3", "+3", "0%", "100%", "2147483647"},
		everynode.WaitForImage:             {"true", "false"},
		everynode.MarkForAutoscaler:        {"true", "false"},
		everynode.LeaveLast:                {"1", "300", "3600"},
		everynode.ComeBackFirst:            {"1", "300", "3600"},
		everynode.InPlaceGrace:             {"0", "30", "2147483647"},
		everynode.InPlaceGate:              {"true", "false"},
		everynode.InPlaceInitImages:        {"true", "false"},
		everynode.MaxReplacing:             {"1", "1%", "100%", "2147483647"},
		everynode.FailureAttributionWindow: {"0", "10m", "1h30m"},
		everynode.BlameWindow:              {"0", "10m", "1h30m"},
		openyurt.UpdateStrategy:            {"OTA", "auto", "AdvancedRollingUpdate"},
		openyurt.MaxUnavailable:            {"", "1", "1%", "100%"},
		annotation.TemplateGeneration.Key:  {"0", "-1", "9223372036854775807"},
	}
	no := map[string][]string{
		kruise.ProgressiveCreate:           {"", "True", "yes", " true"},
		kruise.PredownloadParallelism:      {"", "0", "-1", "1%", "2147483648", "1.0"},
		kruise.PredownloadTimeout:          {"", "0", "1s"},
		kruise.PredownloadMinUpdatedReady:  {"", "-1", "++3", "101%", "%", "1.5", "2147483648", "4294967297"},
		everynode.WaitForImage:             {"", "1", "True"},
		everynode.MarkForAutoscaler:        {"", "yes"},
		everynode.LeaveLast:                {"", "0", "-1", "5m", "3601"},
		everynode.ComeBackFirst:            {"", "0", "-1", "5m", "3601"},
		everynode.InPlaceGrace:             {"", "-1", "10s", "2147483648"},
		everynode.InPlaceGate:              {"", "1", "True"},
		everynode.InPlaceInitImages:        {"", "1", "True"},
		everynode.MaxReplacing:             {"", "0", "0%", "+1", "-1", "101%", "%", " 1", "1 %", "2147483648"},
		everynode.FailureAttributionWindow: {"", "-1s", "10", "soon"},
		everynode.BlameWindow:              {"", "-1s", "10", "soon"},
		openyurt.UpdateStrategy:            {"", "RollingUpdate"},
		openyurt.MaxUnavailable:            {"0", "0%", "+1", "101%"},
		annotation.TemplateGeneration.Key:  {"", "x", "1.5"},
	}
	rules := slices.Concat(kruise.Annotations(), everynode.Annotations(), openyurt.Annotations(), []annotation.Rule{annotation.TemplateGeneration.Rule})
	if len(rules) != len(yes) || len(rules) != len(no) {
		t.Errorf("%d annotations, with examples of %d and %d", len(rules), len(yes), len(no))
	}
	for _, rule := range rules {
		for _, text := range yes[rule.Key] {
			if !rule.Allows(text) {
				t.Errorf("%s: %q cannot be read", rule.Key, text)
			}
		}
		for _, text := range no[rule.Key] {
			if rule.Allows(text) {
				t.Errorf("%s: %q can be read", rule.Key, text)
			}
		}
		if rule.Want == "" || strings.HasSuffix(rule.Remedy(), " ") || strings.HasSuffix(rule.Remedy(), ".") {
			t.Errorf("%s: must be %q; %q", rule.Key, rule.Want, rule.Remedy())
		}
	}
}

func TestQuantityIsWrittenAsItIsRead(t *testing.T) {
	for _, text := range []string{"0", "7", "0%", "35%", "100%"} {
		if q, ok := annotation.QuantityFrom(0)(text); !ok || q.String() != text {
			t.Errorf("%q is read as %v, %v", text, q, ok)
		}
	}
}
