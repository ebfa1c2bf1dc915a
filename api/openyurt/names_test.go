// SPDX-License-Identifier: Apache-2.0

package openyurt_test

import (
	"testing"

	"everynode.dev/everynode/api/openyurt"
)

func TestStrategy(t *testing.T) {
	for text, want := range map[string]openyurt.Strategy{
		"OTA": openyurt.OTA, "ota": openyurt.OTA, "oTa": openyurt.OTA,
		"AdvancedRollingUpdate": openyurt.AdvancedRollingUpdate, "advancedrollingupdate": openyurt.AdvancedRollingUpdate,
		"ADVANCEDROLLINGUPDATE": openyurt.AdvancedRollingUpdate, "Auto": openyurt.AdvancedRollingUpdate, "auto": openyurt.AdvancedRollingUpdate,
	} {
		got, ok := openyurt.ParseStrategy(text)
		if !ok || got != want {
			t.Errorf("%q: %q, %v", text, got, ok)
		}
		if again, ok := openyurt.ParseStrategy(got.Format()); !ok || again != got {
			t.Errorf("%q is written as %q, and read as %q", text, got.Format(), again)
		}
	}
	for _, text := range []string{"", "RollingUpdate", "automatic", " OTA", "OTA ", "Advanced Rolling Update", "OnDelete"} {
		if got, ok := openyurt.ParseStrategy(text); ok || got != "" {
			t.Errorf("%q: %q, %v", text, got, ok)
		}
	}
}

func TestMaxUnavailable(t *testing.T) {
	parse := openyurt.MaxUnavailableValue.Parse
	for text, want := range map[string]string{
		"": "10%", "1": "1", "007": "7", "2147483647": "2147483647", "1%": "1%", "30%": "30%", "030%": "30%", "100%": "100%",
	} {
		got, ok := parse(text)
		if !ok || got.String() != want {
			t.Errorf("%q: %v, %v, want %v", text, got, ok, want)
		}
		if again, ok := parse(got.String()); !ok || again != got {
			t.Errorf("%q is written as %q, and read as %v", text, got, again)
		}
	}
	for _, text := range []string{"0", "0%", "00", "-1", "+1", "-5%", "101%", "%", "%%", "10%%", "10 %", " 10%", "x", "x%", "1.5", "1e3", "2147483648", "10%x", "٣"} {
		if got, ok := parse(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestRevision(t *testing.T) {
	if got := openyurt.FormatRevision("6d4757bf68"); got != "controllerrevision: 6d4757bf68" {
		t.Errorf("message %q", got)
	}
	for _, hash := range []string{"6d4757bf68", "a", "x: y"} {
		if got, ok := openyurt.ParseRevision(openyurt.FormatRevision(hash)); !ok || got != hash {
			t.Errorf("%q: %q, %v", hash, got, ok)
		}
	}
	for _, message := range []string{"", "controllerrevision: ", "controllerrevision:x", "6d4757bf68", "pull image job x failed", "ControllerRevision: x"} {
		if got, ok := openyurt.ParseRevision(message); ok || got != "" {
			t.Errorf("%q: %q", message, got)
		}
	}
}
